"""A block with its norms and sums, as parts of a drawing; every part with its counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import assert_never

from pellucid.config import (
    Alternating,
    DeepNorm,
    NoPositions,
    NoResidual,
    OutputNorm,
    Parallel,
    PostNorm,
    PreNorm,
    Residual,
    SandwichNorm,
    Transformer,
)
from pellucid.counting import parameters
from pellucid.counting.layers import LayerGroup, NamedStack, group_layers
from pellucid.drawing.build.attention import (
    SCORES,
    attention_inside,
    cross_attention_inside,
    feed_forward_inside,
)
from pellucid.drawing.elements import Arrow, Box, Column, Frame, Item, Sum, boxes


class ModelBoxes:
    """A model, and its parts as boxes with their counts."""

    def __init__(self, model: Transformer) -> None:
        self.model = model
        self.shape = Arrow(f"(batch, time, {model.d_model})")
        self._rows = {row.part: row for row in parameters(model)}

    def box(self, row: str, name: str = "", lines: Sequence[str] = (), key: str = "") -> Box:
        """The part that `counting` counts in `row`, each time it occurs.

        Args:
            row: The name of the row.
            name: The name of the box, if it differs.
            lines: More lines of the box.
            key: The key for links.
        """
        counted_row = self._rows[row]
        return Box(
            name=name or row,
            lines=tuple(lines),
            parameters=counted_row.count // counted_row.times,
            times=counted_row.times,
            formula=counted_row.formula,
            key=key,
        )


def blocks(model_boxes: ModelBoxes, named_stack: NamedStack) -> list[Frame]:
    """A block for each kind of attention, with the layers that have it."""
    stack = named_stack.stack
    kinds = group_layers(named_stack)
    frames: list[Frame] = []
    for kind in kinds:
        lines = [_rule(stack.residual)]
        if isinstance(stack.attention, Alternating):
            layer_numbers = [
                n
                for n, attention in enumerate(stack.layers, start=1)
                if attention == kind.attention
            ]
            lines.append(f"Alternating: {kind.name.removeprefix(named_stack.prefix)}")
            lines.append(f"layer{'s' * (len(layer_numbers) > 1)} {_numbers(layer_numbers)}")
        if stack.reparametrisation is not None:
            lines.append(f"{type(stack.reparametrisation).__name__} of every matrix")
        if isinstance(stack.positions, NoPositions):
            lines.append("NoPositions")
        attention_column = _block(model_boxes, named_stack, kind)
        per_block = sum(box.parameters for box in boxes(attention_column))
        frames.append(
            Frame(
                Box(name=f"{named_stack.prefix}block", lines=tuple(lines)),
                attention_column,
                label=f"x {kind.layers}, {per_block:,} each",
            )
        )
    return frames


def _block(model_boxes: ModelBoxes, named_stack: NamedStack, kind: LayerGroup) -> Column:
    stack, prefix, d_model = named_stack.stack, named_stack.prefix, model_boxes.model.d_model
    part = model_boxes.box(kind.name, f"attention: {type(kind.attention).__name__}")
    attention_column = attention_inside(
        kind.attention,
        stack.positions,
        d_model=d_model,
        causal=named_stack.causal,
        scores=prefix + SCORES,
    )
    layers: list[Item] = [Frame(part, attention_column)]
    if stack.cross_attention is not None:
        part = model_boxes.box("cross attention", "cross-attention: MultiHead")
        part = replace(part, times=kind.layers)
        layers.append(Frame(part, cross_attention_inside(stack.cross_attention, d_model)))
    name = f"feed-forward: {type(stack.feed_forward).__name__}"
    part = replace(model_boxes.box(f"{prefix}feed-forward", name), times=kind.layers)
    layers.append(Frame(part, feed_forward_inside(stack.feed_forward, d_model)))
    norms = model_boxes.box(f"{prefix}norms of the blocks", type(stack.norm).__name__)
    norm = replace(norms, times=kind.layers)
    column = (*_join_layers(stack.residual, norm, layers, model_boxes.shape), Arrow())
    return column if isinstance(column[0], Sum) else (Arrow(), *column)


def _join_layers(rule: Residual, norm: Box, layers: Sequence[Item], shape: Arrow) -> Column:
    """Layers one after another, or side by side, with the norms and sums of the rule."""
    if isinstance(rule, Parallel):
        again = Box(name=norm.name, lines=("the same norm",)) if rule.shared_norm else norm
        attention, feed_forward = layers
        branches = (norm, shape, attention, shape), (again, shape, feed_forward, shape)
        return (Sum(tuple((Arrow(), *branch) for branch in branches)),)
    column: Column = ()
    for layer in layers:
        column += (shape, *_layer(rule, norm, layer, shape))
    return column[1:]


def _layer(
    rule: PreNorm | PostNorm | OutputNorm | SandwichNorm | DeepNorm | NoResidual,
    norm: Box,
    layer: Item,
    shape: Arrow,
) -> Column:
    match rule:
        case PreNorm(multiplier=None):
            return (Sum(((Arrow(), norm, shape, layer, shape),)),)
        case PreNorm(multiplier=multiplier):
            scaled = Box(name=f"times {multiplier:.4g}")
            return (Sum(((Arrow(), norm, shape, layer, shape, scaled, shape),)),)
        case PostNorm():
            return (Sum(((Arrow(), layer, shape),)), shape, norm)
        case OutputNorm():
            return (Sum(((Arrow(), layer, shape, norm, shape),)),)
        case SandwichNorm():
            return (Sum(((Arrow(), norm, shape, layer, shape, norm, shape),)),)
        case DeepNorm(alpha=alpha):
            return (Sum(((Arrow(), layer, shape),), f"x {alpha:.4g}"), shape, norm)
        case NoResidual():
            return (norm, shape, layer)
        case _:
            assert_never(rule)


def _rule(rule: Residual) -> str:
    match rule:
        case PreNorm(multiplier=None):
            lines = "x + f(norm(x))"
        case PreNorm(multiplier=multiplier):
            lines = f"x + {multiplier:.4g} f(norm(x))"
        case PostNorm():
            lines = "norm(x + f(x))"
        case OutputNorm():
            lines = "x + norm(f(x))"
        case SandwichNorm():
            lines = "x + norm(f(norm(x)))"
        case DeepNorm():
            lines = "norm(alpha x + f(x))"
        case Parallel(shared_norm=False):
            lines = "x + f(norm(x)) + g(norm'(x))"
        case Parallel():
            lines = "x + f(norm(x)) + g(norm(x))"
        case NoResidual():
            lines = "f(norm(x))"
        case _:
            assert_never(rule)
    return f"{type(rule).__name__}: {lines}"


def _numbers(numbers: Sequence[int]) -> str:
    """1, 3, 5, ..., 25 if the steps are equal; otherwise 1-5, 7-11."""
    if len(numbers) > 4 and len({b - a for a, b in pairwise(numbers)}) == 1:
        return f"{', '.join(map(str, numbers[:3]))}, ..., {numbers[-1]}"
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
