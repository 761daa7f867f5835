"""A place that was chosen, held against a trace: each number within what there is."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from torch import nn

from pellucid.errors import PellucidError
from pellucid.explain.addresses.syntax import stack_letter
from pellucid.explain.attention_record import AttentionRecord
from pellucid.explain.chapter_types import Place
from pellucid.explain.forward_pass import HeadPlace, Side, attention_at
from pellucid.explain.part_facts import known_attention
from pellucid.explain.trace_types import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A place in one trace: `token` asks, `other` is asked, both counted from 0."""

    side: Side
    layer: int
    head: int
    cross: bool
    token: int
    other: int
    feature: int

    @property
    def layer_name(self) -> str:
        """Such as L2."""
        return f"{stack_letter(self.side)}{self.layer}"

    @property
    def head_name(self) -> str:
        """Such as L2.H1, or L2.H1.cross."""
        return f"{self.layer_name}.H{self.head}" + (".cross" if self.cross else "")

    def as_head(self) -> HeadPlace:
        """The head, as ablations name it."""
        return HeadPlace(self.side, self.layer, self.head, self.cross)

    def attention(self, trace: Trace) -> AttentionRecord:
        """What the layer's attention did."""
        return trace.attention(self.side, self.layer, cross=self.cross)

    def query(self, trace: Trace) -> str:
        """The token that asks, quoted, with its place."""
        return f"{trace.pieces(self.side)[self.token]!r} ({self.token})"

    def key(self, trace: Trace) -> str:
        """The token that is asked."""
        pieces = trace.pieces("encoder" if self.cross else self.side)
        return f"{pieces[self.other]!r} ({self.other})"

    def pair(self, trace: Trace) -> str:
        """Who asks, and who is asked."""
        return f"query {self.query(trace)}, key {self.key(trace)}"


def select_place(trace: Trace, place: Place) -> Selection:
    """The place, held against a trace.

    A model of an encoder alone has one stack, which is then meant. Where no key was chosen that the
    query may see, a feature that there is not, or a head of a layer without heads, the chapter
    says so itself.

    Raises:
        PellucidError: there is no such token, layer, head or stack; says what there is.
    """
    if place.stack == "encoder":
        trace.stack_pass("encoder")  # refuses a model without one
    side = place.stack if len(trace.sides) == 2 else trace.side
    stack_pass = trace.stack_pass(side)
    _check_index(
        place.layer, len(stack_pass.stack.blocks), f"layer {place.layer} of the {side}", "layers"
    )
    layer = place.layer % len(stack_pass.stack.blocks)
    cross = place.cross
    if cross and (side == "encoder" or len(trace.sides) == 1):
        raise PellucidError(
            "attention to an encoder was asked for, but there is none: only the decoder of an "
            "encoder-decoder looks at another text"
        )
    time = len(trace.pieces(side))
    keys = len(trace.pieces("encoder")) if cross else time
    _check_index(place.token, time, f"token {place.token}", "tokens")
    _check_index(place.other, keys, f"token {place.other} to look at", "tokens")
    head, attention = place.head, attention_at(trace.model, HeadPlace(side, layer, 0, cross))
    facts = known_attention(attention)
    if facts is not None:
        _check_index(head, facts.n_heads, f"head {head} of layer {layer}", "heads")
        head %= facts.n_heads
    width = stack_pass.final.shape[-1]
    _check_index(place.feature, width, f"feature {place.feature}", "features")
    return Selection(
        side=side,
        layer=layer,
        head=head,
        cross=cross,
        token=place.token % time,
        other=place.other % keys,
        feature=place.feature % width,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedWeight:
    """One number of one parameter; a vector has no column."""

    name: str
    row: int
    column: int | None

    @property
    def index(self) -> tuple[int, ...]:
        """Where it stands in the parameter."""
        return (self.row,) if self.column is None else (self.row, self.column)

    def address(self, suffix: str = "") -> str:
        """Its address, or that of what belongs to it: .grad, .m, .v, .next."""
        return f"{self.name}{suffix}[{', '.join(map(str, self.index))}]"


def select_weight(trace: Trace, place: Place) -> SelectedWeight:
    """The weight that a place names, held against a trace.

    Raises:
        PellucidError: there is no such parameter, row or column; says what there is.
    """
    selection = select_place(trace, place)
    parameters = dict(trace.model.named_parameters())
    block_prefix = f"{selection.side}.blocks.{selection.layer}."
    weight_names = [
        name.removeprefix(block_prefix) for name in parameters if name.startswith(block_prefix)
    ]
    if place.weight:
        name = block_prefix + place.weight if place.weight in weight_names else place.weight
    else:
        name = block_prefix + next(
            (
                weight_name
                for weight_name in weight_names
                if _is_moved(parameters[block_prefix + weight_name])
            ),
            weight_names[0],
        )
    if name not in parameters:
        similar = difflib.get_close_matches(place.weight, [*weight_names, *parameters], n=3)
        hint = f"did you mean {', '.join(similar)}? " if similar else ""
        raise PellucidError(
            f"there is no weight {place.weight!r}: {hint}layer {selection.layer} has "
            f"{', '.join(weight_names)}"
        )
    shape = tuple(parameters[name].shape)
    if len(shape) not in (1, 2):
        raise PellucidError(f"{name} is no matrix and no vector: its shape is {shape}")
    _check_index(place.row, shape[0], f"row {place.row} of {name}", "rows")
    if len(shape) == 1:
        _check_index(place.column, 1, f"column {place.column} of {name}", "columns")
        return SelectedWeight(name=name, row=place.row % shape[0], column=None)
    _check_index(place.column, shape[1], f"column {place.column} of {name}", "columns")
    return SelectedWeight(name=name, row=place.row % shape[0], column=place.column % shape[1])


def _is_moved(parameter: nn.Parameter) -> bool:
    return parameter.ndim == 2 and parameter.requires_grad


def _check_index(number: int, count: int, index_text: str, plural: str) -> None:
    if not -count <= number < count:
        available = f"{count:,} {plural}" if count > 1 else f"one {plural.removesuffix('s')}"
        raise PellucidError(f"there is no {index_text}: there are {available}, counted from 0")
