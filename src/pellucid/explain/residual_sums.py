"""What each sublayer writes into the residual stream, and where: read off the block's own rule.

Comes in: a trace, a stack. Goes out: sums, by address: the stream before, what is added, the stream
behind. Where a rule does not add (post-norm, deep norm, none), there are none, and why is said.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from torch import nn

from pellucid.explain.addresses.syntax import stack_letter
from pellucid.explain.forward_pass import Side
from pellucid.explain.trace_types import Trace
from pellucid.model import ParallelBlock
from pellucid.model import residuals as rules

#: Rules that add, the line that does, and what of a sublayer they add.
_ADDING: dict[Any, tuple[str, str]] = {
    rules.pre_norm: ("return x + layer(norm(x))", "{name}"),
    rules.output_norm: ("return x + norm(layer(x))", "{name}_norm"),
    rules.sandwich_norm: ("return x + norm.after(", "{name}_norm.after"),
}
_WHY: dict[Any, str] = {
    rules.post_norm: "the sum of stream and sublayer is itself normalised (post-norm), so what a "
    "sublayer wrote is rescaled by every norm behind it",
    rules.deep_norm: "the sum of scaled stream and sublayer is itself normalised (deep norm), so "
    "what a sublayer wrote is rescaled by every norm behind it",
    rules.no_residual: "nothing is carried past a layer (no residual): there is no sum",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """One sum of the stream: its addresses, and the line of source that adds."""

    name: str
    before: str
    after: str
    written: tuple[tuple[str, str], ...]
    source: tuple[Any, str]


def writes_in_sequence(block: nn.Module) -> bool:
    """Whether the sublayers come one after another: in a parallel block both read one state."""
    return not isinstance(block, ParallelBlock)


def why_no_sums(trace: Trace, side: Side) -> str | None:
    """Why contributions do not add up in a stack; None where they do."""
    for block in trace.stack_pass(side).stack.blocks:
        rule = _rule(block)
        if writes_in_sequence(block) and rule not in _ADDING:
            return _WHY.get(rule, "the block has a residual rule of its own")
    return None


def list_sums(trace: Trace, side: Side, layer: int) -> list[Sum]:
    """The sums of one block, in order; none where its rule does not add."""
    block = trace.stack_pass(side).stack.blocks[layer]
    at, behind = f"{stack_letter(side)}{layer}", f"{stack_letter(side)}{layer + 1}.residual"
    if not writes_in_sequence(block):
        written = (("attention", f"{at}.attention"), ("feed-forward", f"{at}.feed_forward"))
        line = (ParallelBlock, "return x + self.dropout(attended)")
        name = f"layer {layer}"
        return [Sum(name=name, before=f"{at}.residual", after=behind, written=written, source=line)]
    rule = _rule(block)
    if rule not in _ADDING:
        return []
    line, pattern = _ADDING[rule]
    names = ["attention", "cross_attention", "feed_forward"]
    if cast("Any", block).cross_attention is None:
        names.remove("cross_attention")
    stops = [f"{at}.residual", *(f"{at}.after_{name}" for name in names[:-1]), behind]
    return [
        Sum(
            name=f"layer {layer}, {sublayer_title(name)}",
            before=stops[place],
            after=stops[place + 1],
            written=((sublayer_title(name), f"{at}.{pattern.format(name=name)}"),),
            source=(rule, line),
        )
        for place, name in enumerate(names)
    ]


def sublayer_title(name: str) -> str:
    """A sublayer in words."""
    return {"feed_forward": "feed-forward", "cross_attention": "cross-attention"}.get(name, name)


def _rule(block: nn.Module) -> Any:
    rule = cast("Any", block).residual
    return rule.func if isinstance(rule, partial) else rule
