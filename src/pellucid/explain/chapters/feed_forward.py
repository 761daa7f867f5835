"""Feed-forward: the units of a layer that speak for a token, and what one of them says."""

from __future__ import annotations

from typing import assert_never, cast

import torch
from torch import nn

from pellucid.errors import PellucidError
from pellucid.explain.chapter_types import Bars, Chapter, Place, Receipt, Table
from pellucid.explain.part_facts import entry_norm
from pellucid.explain.receipts import activation_receipt
from pellucid.explain.receipts.builder import at
from pellucid.explain.receipts.linear import matrix_receipt
from pellucid.explain.selection import Selection, select_place
from pellucid.explain.trace_types import Trace
from pellucid.model.facts import (
    BlockFacts,
    FeedForwardFacts,
    IdentityFacts,
    NormFacts,
    ResidualFacts,
    SandwichFacts,
    UnknownFacts,
    block_facts,
    feed_forward_facts,
    norm_facts,
)
from pellucid.typed import to_list

_UNITS = 12
_ONE_TOKEN_ONLY = " by itself, no other token in sight"


def _describe_input(block: nn.Module) -> str:
    """What the units read of a token; nothing if the block or its norm states no facts."""
    facts = block_facts(block)
    match facts:
        case BlockFacts(residual=ResidualFacts(norm="sum" | "output")):
            return _ONE_TOKEN_ONLY
        case BlockFacts(residual=ResidualFacts()):
            return _describe_normed(block.get_submodule(entry_norm(block, "feed_forward_norm")))
        case BlockFacts() | UnknownFacts():
            return ""
        case _:
            assert_never(facts)


def _describe_normed(norm: nn.Module) -> str:
    facts = norm_facts(norm)
    match facts:
        case NormFacts(mean_over="sequence"):
            return " as a norm over all tokens of the text left it"
        case NormFacts() | IdentityFacts():
            return _ONE_TOKEN_ONLY
        case SandwichFacts() | UnknownFacts():
            return ""
        case _:
            assert_never(facts)


def build(trace: Trace, place: Place) -> Chapter:
    """The units that write most, by |unit| times the length of what it writes."""
    selection = select_place(trace, place)
    block = trace.stack_pass(selection.side).stack.blocks[selection.layer]
    module = block.get_submodule("feed_forward")
    stated = feed_forward_facts(module)
    match stated:
        case FeedForwardFacts() as facts:
            gated = facts.gate is not None
        case UnknownFacts():
            raise PellucidError(
                f"layer {selection.layer} has no feed-forward whose units are known"
            )
        case _:
            assert_never(stated)
    values = trace[at(f"{selection.layer_name}.feed_forward.units", selection.token)].double()
    lengths_written = _lengths(cast("nn.Linear", module.get_submodule(facts.down))) * values.abs()
    order = lengths_written.argsort(descending=True, stable=True)[:_UNITS]
    units: list[int] = to_list(order)
    share = float(lengths_written[order].sum() / lengths_written.sum().clamp_min(1e-300))
    return Chapter(
        sentence=f"{selection.query(trace)}{_describe_input(block)}: {len(values):,} units "
        f"each look for something in it, and write what belongs to it. "
        f"{_describe_activation(facts)}",
        pictures=(
            Bars(
                title=f"the {len(units)} units of {selection.layer_name} that write most",
                names=tuple(f"unit {unit}" for unit in units),
                values=tuple(to_list(lengths_written[order])),
                unit="length written",
                rest=float(lengths_written.sum() - lengths_written[order].sum()),
            ),
            _table(trace, selection, units, gated=gated),
        ),
        receipts=tuple(_receipts(trace, selection, units[0], gated=gated)),
        notes=(
            f"these {len(units)} of {len(values):,} units make {share:.0%} of all the lengths; "
            "what they write may cancel",
        ),
    )


@torch.no_grad()
def _lengths(down: nn.Linear) -> torch.Tensor:
    return down.weight.double().square().sum(0).sqrt()


def _describe_activation(facts: FeedForwardFacts) -> str:
    bent = facts.activation or "an activation of its own"
    if facts.gate is not None:
        return f"Each is let through by a gate of its own, bent by {bent}."
    return f"What they find is bent by {bent}."


def _table(trace: Trace, selection: Selection, units: list[int], *, gated: bool) -> Table:
    at_layer = f"{selection.layer_name}.feed_forward"
    parts = ["gate", "up", "units"] if gated else ["up", "units"]
    values = {part: trace[at(f"{at_layer}.{part}", selection.token)] for part in parts}
    return Table(
        title="what they were given, and what they say",
        columns=("unit", *parts),
        rows=tuple((unit, *(float(values[part][unit]) for part in parts)) for unit in units),
    )


def _receipts(trace: Trace, selection: Selection, unit: int, *, gated: bool) -> list[Receipt]:
    parts = ("gate", "up") if gated else ("up",)
    receipts = [
        matrix_receipt(trace, selection, part, token=selection.token, feature=unit)
        for part in parts
    ]
    activated = activation_receipt(trace, selection, unit)
    receipts += [] if activated is None else [activated]
    down = matrix_receipt(
        trace, selection, "down", token=selection.token, feature=selection.feature
    )
    return [*receipts, down]
