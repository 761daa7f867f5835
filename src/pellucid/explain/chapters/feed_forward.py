"""Feed-forward: the units of a layer that write most, or the experts that a token uses."""

from __future__ import annotations

from typing import assert_never

import torch
from torch import nn

from pellucid.catalogue import message
from pellucid.errors import PellucidError
from pellucid.explain.chapter_types import Content, Table
from pellucid.explain.chapters.adapters import view_adapter
from pellucid.explain.chapters.experts import build_experts
from pellucid.explain.chapters.pictures import bars, largest
from pellucid.explain.forward_pass import evaluating
from pellucid.explain.part_facts import entry_norm
from pellucid.explain.receipts import activation_receipt
from pellucid.explain.receipts.builder import cell
from pellucid.explain.receipts.of_selection import matrix_receipt
from pellucid.explain.selection import Selection
from pellucid.explain.trace_types import Trace
from pellucid.explain.why.held import read_matrix
from pellucid.model.facts import (
    BlockFacts,
    ClampedFeedForwardFacts,
    DenseFeedForwardPart,
    ExpertsFacts,
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

_UNITS = 12
_ONE_TOKEN_ONLY = message("feed_forward.alone-no-other-token-in")


def build(trace: Trace, selection: Selection) -> Content:
    """The units that write most, by |unit| times the length of its output vector."""
    block, token = trace.stack_pass(selection.side).stack.blocks[selection.layer], selection.token
    module = block.get_submodule("feed_forward")
    facts = feed_forward_facts(module)
    match facts:
        case FeedForwardFacts():
            inputs = ("up",) if facts.gate is None else ("gate", "up")
        case ClampedFeedForwardFacts():
            inputs = ("gate", "up")
        case ExpertsFacts():
            return build_experts(trace, selection, facts)
        case UnknownFacts():
            raise PellucidError(
                message("feed_forward.layer-has-no-feed-forward", layer=selection.layer)
            )
        case _:
            assert_never(facts)
    address = f"{selection.layer_name}.feed_forward"
    values = {part: trace[cell(f"{address}.{part}", token)] for part in (*inputs, "units")}
    units = values["units"].double()
    with torch.no_grad(), evaluating(trace.model):
        down, _ = read_matrix(module.get_submodule(facts.down))
        lengths = down.square().sum(0).sqrt() * units.abs()
    order = largest(lengths, _UNITS)
    share = float(lengths[order].sum() / lengths.sum().clamp_min(1e-300))
    matrices = {**dict.fromkeys(inputs, order[0]), "down": selection.feature}
    adapters = [
        view_adapter(trace, selection, f"feed_forward.{name}", feature)
        for name, feature in matrices.items()
    ]
    return Content(
        sentence=message(
            "feed_forward.units-each-look-for-a",
            query=selection.query(trace),
            input=_describe_input(block),
            n_units=len(units),
            activation=_describe_activation(facts),
        ),
        pictures=(
            bars(
                message(
                    "feed_forward.the-units-of-that-write",
                    n_order=len(order),
                    layer_name=selection.layer_name,
                ),
                lengths,
                order,
                lambda unit: message("feed_forward.unit", unit=unit),
                message("feed_forward.length-written"),
            ),
            Table(
                title=message("feed_forward.their-inputs-and-their-outputs"),
                columns=(message("word.unit"), *values),
                rows=tuple(
                    (unit, *(float(part[unit]) for part in values.values())) for unit in order
                ),
            ),
            *(picture for view in adapters for picture in view.pictures),
        ),
        receipts=(
            *(matrix_receipt(trace, selection, p, token=token, feature=order[0]) for p in inputs),
            activation_receipt(trace, selection, order[0]),
            matrix_receipt(trace, selection, "down", token=token, feature=selection.feature),
            *(receipt for view in adapters for receipt in view.receipts),
        ),
        notes=(
            message(
                "feed_forward.these-of-units-make-of",
                n_order=len(order),
                n_units=len(units),
                share=share,
            ),
            *(note for view in adapters for note in view.notes),
        ),
    )


def _describe_input(block: nn.Module) -> str:
    """The state of the token that the units read; empty if the block or norm states no facts."""
    facts = block_facts(block)
    match facts:
        case BlockFacts(residual=ResidualFacts(norm="sum" | "output")):
            return _ONE_TOKEN_ONLY
        case BlockFacts(residual=ResidualFacts(), shared_norm=shared_norm):
            norm = "attention_norm" if shared_norm else "feed_forward_norm"
            return _describe_normed(block.get_submodule(entry_norm(block, norm)))
        case BlockFacts() | UnknownFacts():
            return ""
        case _:
            assert_never(facts)


def _describe_normed(norm: nn.Module) -> str:
    facts = norm_facts(norm)
    match facts:
        case NormFacts(mean_over="sequence"):
            return message("feed_forward.after-a-norm-over-all")
        case NormFacts() | IdentityFacts():
            return _ONE_TOKEN_ONLY
        case SandwichFacts() | UnknownFacts():
            return ""
        case _:
            assert_never(facts)


def _describe_activation(facts: DenseFeedForwardPart) -> str:
    if isinstance(facts, ClampedFeedForwardFacts):
        return message("feed_forward.a-gate-of-its-own-2")
    activation = facts.activation or message("feed_forward.an-activation-of-its-own")
    if facts.gate is not None:
        return message("feed_forward.a-gate-of-its-own", activation=activation)
    return message("feed_forward.their-products-pass-through", activation=activation)
