"""The sums of the residual stream, from the rule of each block.

Some rules do not add (post-norm, deep norm, none): then there are no sums, and `why_no_sums` says
why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_never

from torch import nn

from pellucid.catalogue import message
from pellucid.explain.addresses.syntax import stack_letter
from pellucid.explain.forward_pass import Side
from pellucid.explain.trace_types import Trace
from pellucid.model import ParallelBlock
from pellucid.model import residuals as rules
from pellucid.model.facts import BlockFacts, ResidualFacts, ResidualPart, UnknownFacts, block_facts

#: Rules that add a sublayer to the stream, by where the norm is: the line that adds, and the part
#: that is added.
_ADDING: dict[str, tuple[tuple[Any, str], str]] = {
    "input": ((rules.pre_norm, "return x + layer(norm(x))"), "{name}"),
    "output": ((rules.output_norm, "return x + norm(layer(x))"), "{name}_norm"),
    "sandwich": ((rules.sandwich_norm, "return x + norm.after("), "{name}_norm.after"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """One sum of the stream: its addresses, and the line of source that adds."""

    name: str
    before: str
    after: str
    terms: tuple[tuple[str, str], ...]
    source: tuple[Any, str]
    #: the factor of every term
    multiplier: float = 1.0


def why_no_sums(trace: Trace, side: Side) -> str | None:
    """Why contributions do not add up in a stack; None if they do."""
    for block in trace.stack_pass(side).stack.blocks:
        reason = _why_no_sum(block)
        if reason is not None:
            return reason
    return None


def _why_no_sum(block: nn.Module) -> str | None:
    residual = _residual(block)
    match residual:
        case UnknownFacts(reason=reason):
            return message("residual.the-block-does-not-say", reason=reason)
        case ResidualFacts(norm=norm, carried=carried, multiplier=multiplier):
            pass
        case _:
            assert_never(residual)
    if carried == 0:
        return message("residual.nothing-is-carried-past-a")
    if norm == "sum":
        scaled, name = (
            ("", "post-norm") if carried == 1 else (message("residual.scaled"), "deep norm")
        )
        return message("residual.the-sum-of-stream-and", scaled=scaled, name=name)
    if multiplier != 1 and norm != "input":
        return message("residual.what-a-sublayer-wrote-is")
    return None if carried == 1 else message("residual.the-stream-is-scaled-before")


def _residual(block: nn.Module) -> ResidualPart:
    facts = block_facts(block)
    return facts if isinstance(facts, UnknownFacts) else facts.residual


def list_sums(trace: Trace, side: Side, layer: int) -> list[Sum]:
    """The sums of one block, in order; none if its rule does not add."""
    block = trace.stack_pass(side).stack.blocks[layer]
    facts = block_facts(block)
    if _why_no_sum(block) is not None or not isinstance(facts, BlockFacts):
        return []
    before, after = (f"{stack_letter(side)}{number}.residual" for number in (layer, layer + 1))
    layer_name = f"{stack_letter(side)}{layer}"
    if facts.order == "parallel":
        added = (
            (sublayer_title("attention"), f"{layer_name}.attention"),
            (sublayer_title("feed_forward"), f"{layer_name}.feed_forward"),
        )
        line = (ParallelBlock, "return x + self.dropout(attended)")
        return [
            Sum(
                name=message("residual.layer-2", layer=layer),
                before=before,
                after=after,
                terms=added,
                source=line,
            )
        ]
    assert isinstance(facts.residual, ResidualFacts)
    source, pattern = _ADDING[facts.residual.norm]
    multiplier = facts.residual.multiplier
    if multiplier != 1:
        source = (rules.scaled_pre_norm, "return x + multiplier * layer(norm(x))")
    names = ["attention", "cross_attention", "feed_forward"]
    if facts.cross_attention is None:
        names.remove("cross_attention")
    stops = [before, *(f"{layer_name}.after_{name}" for name in names[:-1]), after]
    return [
        Sum(
            name=message("residual.layer", layer=layer, sublayer_title=sublayer_title(name)),
            before=stops[place],
            after=stops[place + 1],
            terms=((sublayer_title(name), f"{layer_name}.{pattern.format(name=name)}"),),
            source=source,
            multiplier=multiplier,
        )
        for place, name in enumerate(names)
    ]


def sublayer_title(name: str) -> str:
    """A sublayer in words."""
    return message(f"sublayer.{name}")
