"""Feed-forward: the units of a layer that speak for a token, and what one of them says.

Comes in: a trace, a layer, a token; `feature` of the place is a feature of what is written. Goes
out: a chapter.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from pellucid.errors import PellucidError
from pellucid.explain.chapter_types import Bars, Chapter, Place, Receipt, Table
from pellucid.explain.receipts import activation_receipt, linear_receipt
from pellucid.explain.receipts.builder import at
from pellucid.explain.selection import Chosen, settled
from pellucid.explain.tracing import Trace
from pellucid.model import MLP, GatedMLP, InstanceNorm, Sandwich, residuals
from pellucid.typed import to_list

_UNITS = 12
#: Rules whose norm stands behind the feed-forward, and not before it.
_AFTER = (residuals.post_norm, residuals.output_norm, residuals.deep_norm)


def _seen(block: Any) -> str:
    """What the units are given of a token: with one kind of norm before them, not it alone."""
    norm = block.feed_forward_norm
    norm = norm.before if isinstance(norm, Sandwich) else norm
    stands_after = getattr(block.residual, "func", block.residual) in _AFTER
    if isinstance(norm, InstanceNorm) and not stands_after:
        return "as a norm over all tokens of the text left it"
    return "by itself, no other token in sight"


def build(trace: Trace, place: Place) -> Chapter:
    """The units that write most, by |unit| times the length of what it writes."""
    chosen = settled(trace, place)
    block: Any = trace.passed(chosen.side).stack.blocks[chosen.layer]
    module = block.feed_forward
    if not isinstance(module, MLP | GatedMLP):
        raise PellucidError(f"layer {chosen.layer} has no feed-forward whose units are known")
    gated = isinstance(module, GatedMLP)
    values = trace[at(f"{chosen.layer_name}.feed_forward.units", chosen.token)].double()
    written = _lengths(module.down) * values.abs()
    order = written.argsort(descending=True, stable=True)[:_UNITS]
    units: list[int] = to_list(order)
    share = float(written[order].sum() / written.sum().clamp_min(1e-300))
    return Chapter(
        id="feed-forward",
        number=10,
        part="forward",
        title="Feed-forward",
        sentence=f"{chosen.query(trace)} {_seen(block)}: {len(values):,} units "
        f"each look for something in it, and write what belongs to it. "
        f"{_describe_activation(module)}",
        pictures=(
            Bars(
                title=f"the {len(units)} units of {chosen.layer_name} that write most",
                names=tuple(f"unit {unit}" for unit in units),
                values=tuple(to_list(written[order])),
                unit="length written",
                rest=float(written.sum() - written[order].sum()),
            ),
            _table(trace, chosen, units, gated=gated),
        ),
        receipts=tuple(_receipts(trace, chosen, units[0], gated=gated)),
        notes=(
            f"these {len(units)} of {len(values):,} units make {share:.0%} of all the lengths; "
            "what they write may cancel",
        ),
    )


@torch.no_grad()
def _lengths(down: nn.Linear) -> torch.Tensor:
    return down.weight.double().square().sum(0).sqrt()


def _describe_activation(module: MLP | GatedMLP) -> str:
    bent = getattr(module.activation, "__name__", "an activation")
    if isinstance(module, GatedMLP):
        return f"Each is let through by a gate of its own, bent by {bent}."
    return f"What they find is bent by {bent}."


def _table(trace: Trace, chosen: Chosen, units: list[int], *, gated: bool) -> Table:
    at_layer = f"{chosen.layer_name}.feed_forward"
    parts = ["gate", "up", "units"] if gated else ["up", "units"]
    values = {part: trace[at(f"{at_layer}.{part}", chosen.token)] for part in parts}
    return Table(
        title="what they were given, and what they say",
        columns=("unit", *parts),
        rows=tuple((unit, *(float(values[part][unit]) for part in parts)) for unit in units),
    )


def _receipts(trace: Trace, chosen: Chosen, unit: int, *, gated: bool) -> list[Receipt]:
    layer = f"{chosen.side}.blocks.{chosen.layer}.feed_forward"
    at_layer = f"{chosen.layer_name}.feed_forward"
    receipts = [
        linear_receipt(
            trace,
            layer=f"{layer}.{part}",
            given=f"{at_layer}.in",
            made=f"{at_layer}.{part}",
            token=chosen.token,
            feature=unit,
            title=f"unit {unit}, what its {'gate' if part == 'gate' else 'row'} finds",
            line="self.down(self.activation(",
        )
        for part in (("gate", "up") if gated else ("up",))
    ]
    bent = activation_receipt(trace, chosen, unit)
    if bent is not None:
        receipts.append(bent)
    receipts.append(
        linear_receipt(
            trace,
            layer=f"{layer}.down",
            given=f"{at_layer}.units",
            made=at_layer,
            token=chosen.token,
            feature=chosen.feature,
            title=f"feature {chosen.feature} of what the layer writes",
            line="self.down(self.activation(",
        )
    )
    return receipts
