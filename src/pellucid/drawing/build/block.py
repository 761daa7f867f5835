"""A block with its norms and sums, as parts of a drawing; every part with its counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import assert_never

from pellucid.config import (
    Alternating,
    AlternatingFeedForward,
    AlternatingPositions,
    DeepNorm,
    Layer,
    NoPositions,
    NoResidual,
    OnePositions,
    OutputNorm,
    Parallel,
    PostNorm,
    PreNorm,
    Residual,
    Rotary,
    SandwichNorm,
    Stack,
    Transformer,
)
from pellucid.counting import parameters
from pellucid.counting.layers import NamedStack, group_feed_forwards, group_layers
from pellucid.drawing.build.attention import (
    SCORES,
    attention_inside,
    cross_attention_inside,
)
from pellucid.drawing.build.feed_forward import feed_forward_inside
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


@dataclass(frozen=True, slots=True)
class BlockGroup:
    """Layers with the same parts, by their numbers from 1."""

    layer: Layer
    numbers: tuple[int, ...]
    #: how many of them have weights of their own
    copies: int
    has_attention_norm: bool


def blocks(model_boxes: ModelBoxes, named_stack: NamedStack) -> list[Frame]:
    """A block for each kind of layer, with the layers that are of that kind."""
    return [_frame(model_boxes, named_stack, group) for group in _group_blocks(named_stack.stack)]


def _group_blocks(stack: Stack) -> list[BlockGroup]:
    owners = set(stack.owners)
    places: dict[tuple[Layer, bool], list[int]] = {}
    for index, layer in enumerate(stack.layers):
        has_norm = index > 0 or stack.first_attention_norm
        places.setdefault((layer, has_norm), []).append(index)
    return [
        BlockGroup(
            layer,
            tuple(index + 1 for index in indices),
            sum(index in owners for index in indices),
            has_norm,
        )
        for (layer, has_norm), indices in places.items()
    ]


def _frame(model_boxes: ModelBoxes, named_stack: NamedStack, group: BlockGroup) -> Frame:
    stack, n = named_stack.stack, len(group.numbers)
    lines = [_rule(stack.residual)]
    if not group.has_attention_norm:
        lines.append("attention reads its input without a norm")
    names = _names(named_stack, group.layer)
    parts = (stack.attention, stack.feed_forward, stack.positions)
    for part, kind in zip(parts, names, strict=True):
        if isinstance(part, Alternating | AlternatingFeedForward | AlternatingPositions):
            lines.append(f"{type(part).__name__}: {kind.removeprefix(named_stack.prefix)}")
    if n < stack.n_layers or len(lines) > 1:
        lines.append(f"layer{'s' * (n > 1)} {_numbers(group.numbers)}")
    if stack.reparametrisation is not None:
        lines.append(f"{type(stack.reparametrisation).__name__} of every matrix")
    if isinstance(group.layer.positions, NoPositions):
        lines.append("NoPositions")
    if group.copies < n:
        sets = f"{group.copies} set{'s' * (group.copies != 1)}"
        lines.append(f"SharedLayers: {n} layers use {sets} of weights")
    column = _block(model_boxes, named_stack, group)
    label = f"x {n}, {sum(box.parameters for box in boxes(column)):,} each"
    return Frame(Box(name=f"{named_stack.prefix}block", lines=tuple(lines)), column, label=label)


def _names(named_stack: NamedStack, layer: Layer) -> tuple[str, str, str]:
    """The names of a layer's attention, feed-forward and positions in tables and drawings."""
    attention = next(g.name for g in group_layers(named_stack) if g.kind == layer.attention)
    feed_forwards = group_feed_forwards(named_stack)
    feed_forward = next(g.name for g in feed_forwards if g.kind == layer.feed_forward)
    return attention, feed_forward, scheme_words(layer.positions)


def scheme_words(scheme: OnePositions) -> str:
    """A scheme's kind, and the base of angles."""
    name = type(scheme).__name__
    return f"{name}, base {scheme.base:,g}" if isinstance(scheme, Rotary) else name


def position_keys(named_stack: NamedStack, scheme: OnePositions) -> tuple[str, str]:
    """The keys of the box of a scheme, and of the parts where it acts."""
    schemes, prefix = named_stack.stack.schemes, named_stack.prefix
    number = f" {schemes.index(scheme) + 1}" if len(schemes) > 1 else ""
    return f"{prefix}positions{number}", f"{prefix}{SCORES}{number}"


def _block(model_boxes: ModelBoxes, named_stack: NamedStack, group: BlockGroup) -> Column:
    stack, prefix, d_model = named_stack.stack, named_stack.prefix, model_boxes.model.d_model
    layer, copies = group.layer, group.copies
    attention_name, feed_forward_name, _ = _names(named_stack, layer)
    _, scores = position_keys(named_stack, layer.positions)
    part = model_boxes.box(attention_name, f"attention: {type(layer.attention).__name__}")
    attention_column = attention_inside(
        layer.attention, layer.positions, d_model=d_model, causal=named_stack.causal, scores=scores
    )
    layers: list[Item] = [Frame(replace(part, times=copies), attention_column)]
    if stack.cross_attention is not None:
        part = model_boxes.box("cross attention", "cross-attention: MultiHead")
        part = replace(part, times=copies)
        layers.append(Frame(part, cross_attention_inside(stack.cross_attention, d_model)))
    name = f"feed-forward: {type(layer.feed_forward).__name__}"
    part = replace(model_boxes.box(feed_forward_name, name), times=copies)
    layers.append(Frame(part, feed_forward_inside(layer.feed_forward, d_model)))
    norms = model_boxes.box(f"{prefix}norms of the blocks", type(stack.norm).__name__)
    norm = replace(norms, times=copies)
    column = _join_layers(stack.residual, norm, layers, model_boxes.shape)
    if not group.has_attention_norm:
        bare = (Sum(((Arrow(), layers[0], model_boxes.shape),)),)
        column = (*bare, *column[1:])
    column = (*column, Arrow())
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
    words = [f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    return ", ".join(words if len(words) < 6 else (*words[:3], "...", words[-1]))
