"""A selected place, checked against a trace: every number is within its range."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from pellucid.catalogue import join, message
from pellucid.errors import PellucidError
from pellucid.explain.addresses.syntax import stack_letter
from pellucid.explain.attention_record import AttentionRecord
from pellucid.explain.chapter_types import Place
from pellucid.explain.forward_pass import HeadPlace, Side, attention_at
from pellucid.explain.part_facts import known_attention
from pellucid.explain.trace_types import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A place in one trace: `token` is the query, `other` the key, both counted from 0.

    `weight`, `row` and `column` are as in `Place`; `select_weight` checks them.
    """

    side: Side
    layer: int
    head: int
    cross: bool
    token: int
    other: int
    feature: int
    weight: str = ""
    row: int = 0
    column: int = 0

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
        """The record of the layer's attention."""
        return trace.attention(self.side, self.layer, cross=self.cross)

    def key_pieces(self, trace: Trace) -> tuple[str, ...]:
        """The tokens that a query may see: its own text, or the source in cross-attention."""
        return trace.pieces("encoder" if self.cross else self.side)

    def query(self, trace: Trace) -> str:
        """The token of the query, quoted, with its place."""
        return label(trace.pieces(self.side), self.token)

    def key(self, trace: Trace) -> str:
        """The token of the key, quoted, with its place."""
        return label(self.key_pieces(trace), self.other)

    def pair(self, trace: Trace) -> str:
        """The query and the key, for a title."""
        return message("selection.query-key", query=self.query(trace), key_token=self.key(trace))


def label(pieces: tuple[str, ...], token: int) -> str:
    """A token, quoted, with its place: 'cat' (3)."""
    return f"{pieces[token]!r} ({token})"


def select_place(trace: Trace, place: Place) -> Selection:
    """The place, checked against a trace.

    In a model with an encoder alone, that encoder is meant. A chapter checks for itself whether the
    query may see the key, and whether the layer has heads.

    Raises:
        PellucidError: the trace has no such token, layer, head or stack; lists those it has.
    """
    if place.stack == "encoder":
        trace.stack_pass("encoder")  # refuses a model without one
    side = place.stack if len(trace.sides) == 2 else trace.side
    n_layers, cross = trace.n_layers(side), place.cross
    _check_index(
        place.layer,
        n_layers,
        message("selection.layer-of-the", layer=place.layer, side=side),
        "layers",
    )
    layer = place.layer % n_layers
    if cross and (side == "encoder" or len(trace.sides) == 1):
        raise PellucidError(message("selection.attention-to-an-encoder-was"))
    time = len(trace.pieces(side))
    keys = len(trace.pieces("encoder")) if cross else time
    _check_index(place.token, time, message("selection.token", token=place.token), "tokens")
    _check_index(
        place.other, keys, message("selection.token-to-look-at", other=place.other), "tokens"
    )
    head, attention = place.head, attention_at(trace.model, HeadPlace(side, layer, 0, cross))
    facts = known_attention(attention)
    if facts is not None:
        _check_index(
            head, facts.n_heads, message("selection.head-of-layer", head=head, layer=layer), "heads"
        )
        head %= facts.n_heads
    width = trace.stack_pass(side).final.shape[-1]
    _check_index(
        place.feature, width, message("selection.feature", feature=place.feature), "features"
    )
    return Selection(
        side=side,
        layer=layer,
        head=head,
        cross=cross,
        token=place.token % time,
        other=place.other % keys,
        feature=place.feature % width,
        weight=place.weight,
        row=place.row,
        column=place.column,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedWeight:
    """One number of one parameter; a vector has no column."""

    name: str
    row: int
    column: int | None

    @property
    def index(self) -> tuple[int, ...]:
        """Its index in the parameter."""
        return (self.row,) if self.column is None else (self.row, self.column)

    def address(self, suffix: str = "") -> str:
        """Its address; with a suffix the address of its .grad, .m, .v or .next."""
        return f"{self.name}{suffix}[{', '.join(map(str, self.index))}]"


def select_weight(trace: Trace, selection: Selection) -> SelectedWeight:
    """The weight of a selection, checked against a trace.

    Raises:
        PellucidError: the model has no such parameter, row or column; lists those it has.
    """
    parameters = dict(trace.model.named_parameters())
    block = trace.model.get_submodule(f"{selection.side}.blocks.{selection.layer}")
    local_parameters = dict(block.named_parameters())
    local_names = list(local_parameters)
    trained_matrices = (
        name
        for name, parameter in local_parameters.items()
        if parameter.ndim == 2 and parameter.requires_grad
    )
    name = local_name = selection.weight or next(trained_matrices, local_names[0])
    if local_name in local_parameters:
        # layers that share their weights have the names of the first of them
        selected = local_parameters[local_name]
        name = next(name for name, parameter in parameters.items() if parameter is selected)
    if name not in parameters:
        similar = difflib.get_close_matches(local_name, [*local_names, *parameters], n=3)
        hint = message("selection.did-you-mean", similar=join(", ", similar)) if similar else ""
        raise PellucidError(
            message(
                "selection.there-is-no-weight-layer",
                local_name=repr(local_name),
                hint=hint,
                layer=selection.layer,
                local_names=join(", ", local_names),
            )
        )
    shape = tuple(parameters[name].shape)
    if len(shape) not in (1, 2):
        raise PellucidError(message("selection.is-no-matrix-and-no", name=name, shape=shape))
    n_rows, n_columns = (*shape, 1)[:2]
    row, column = selection.row, selection.column
    _check_index(row, n_rows, message("selection.row-of", row=row, name=name), "rows")
    _check_index(
        column, n_columns, message("selection.column-of", column=column, name=name), "columns"
    )
    return SelectedWeight(
        name=name, row=row % n_rows, column=column % n_columns if len(shape) == 2 else None
    )


def _check_index(number: int, count: int, index_text: str, plural: str) -> None:
    if not -count <= number < count:
        available = message(f"selection.{plural}", n=count)
        raise PellucidError(message("selection.outside", index=index_text, available=available))
