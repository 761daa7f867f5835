"""Pictures that several chapters show: maps of attention, bars of the largest numbers, windows.

A map that is too large is cut or pooled, and its title or `pooled` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from pellucid.catalogue import message
from pellucid.explain import attention_heads
from pellucid.explain.chapter_types import Bars, Matrix
from pellucid.explain.selection import Selection
from pellucid.explain.trace_types import Trace
from pellucid.typed import to_list

#: Rows and columns of a map, at most; a chapter stays small, however long the text.
MAX_CELLS = 48
#: Rows and columns of a map of a whole long text, at most.
_WHOLE_CELLS = 64
#: Bars of the features of a vector, at most.
_FEATURES = 24


def bars(
    title: str, values: Tensor, order: Sequence[int], label: Callable[[int], str], unit: str = ""
) -> Bars:
    """Some numbers of a vector as bars; `rest` is the sum of all others, if there are any.

    Args:
        title: of the picture.
        values: (n,), all numbers.
        order: the numbers to show, the most important first.
        label: the name of each.
        unit: of the numbers.
    """
    bar_values = values[list(order)]
    return Bars(
        title=title,
        names=tuple(map(label, order)),
        values=tuple(to_list(bar_values)),
        unit=unit,
        rest=float(values.sum() - bar_values.sum()) if len(order) < len(values) else None,
    )


def largest(values: Tensor, count: int) -> list[int]:
    """The places of the largest numbers, the largest first; equal ones in their order."""
    return to_list(values.argsort(descending=True, stable=True)[:count])


def feature_bars(title: str, values: Tensor) -> Bars:
    """The first features of a vector as bars."""
    n_shown = min(_FEATURES, len(values))
    cut = (
        message("pictures.the-first-of", n_shown=n_shown, n_values=len(values))
        if n_shown < len(values)
        else ""
    )
    return Bars(
        title=title + cut,
        names=tuple(map(str, range(n_shown))),
        values=tuple(to_list(values[:n_shown].float())),
    )


def window(center: int, count: int, size: int) -> range:
    """At most `size` of `count` places, around a center if it is not near an end."""
    first = max(0, min(center - size // 2, count - size))
    return range(first, min(first + size, count))


def head_map(
    trace: Trace, selection: Selection, part: str, scale: Literal["sequential", "diverging"]
) -> Matrix:
    """The scores or weights of a head, around the selected query and key; masked cells are None."""
    address = f"{selection.head_name}.{part}"
    values, mask = trace[address].float(), attention_heads.mask(selection.attention(trace))
    rows, columns = trace.pieces(selection.side), selection.key_pieces(trace)
    first_row, first_column = _start(selection.token, rows), _start(selection.other, columns)
    shown_rows, shown_columns = (
        slice(first, first + MAX_CELLS) for first in (first_row, first_column)
    )
    note = ""
    if max(len(rows), len(columns)) > MAX_CELLS:
        note = message(
            "pictures.cut-out-queries-to-of",
            first_row=first_row,
            min=min(first_row + MAX_CELLS, len(rows)) - 1,
            n_rows=len(rows),
            first_column=first_column,
            min2=min(first_column + MAX_CELLS, len(columns)) - 1,
            n_columns=len(columns),
        )
    return Matrix(
        title=message("pictures.map", part=message(f"word.{part}"), head=selection.head_name),
        rows=rows[shown_rows],
        columns=columns[shown_columns],
        values=_cells(values[shown_rows, shown_columns], mask[shown_rows, shown_columns]),
        scale=scale,
        address=address,
        pooled=note,
        first_row=first_row,
        first_column=first_column,
    )


def whole_map(
    trace: Trace, selection: Selection, part: str, scale: Literal["sequential", "diverging"]
) -> Matrix | None:
    """All of the head's scores or weights, pooled; None if `head_map` shows all of them."""
    pieces = trace.pieces(selection.side), selection.key_pieces(trace)
    if max(map(len, pieces)) <= MAX_CELLS:
        return None
    whole = pooled_map(trace, selection, _WHOLE_CELLS, part, scale)
    return replace(
        whole,
        title=message("pictures.whole-map", part=message(f"word.{part}"), head=selection.head_name),
    )


def pooled_map(
    trace: Trace,
    selection: Selection,
    max_cells: int = 32,
    part: str = "weights",
    scale: Literal["sequential", "diverging"] = "sequential",
) -> Matrix:
    """A head's weights or scores small enough for a thumbnail: the largest of each patch."""
    values = trace[f"{selection.head_name}.{part}"].float()
    mask = attention_heads.mask(selection.attention(trace))
    patch = -(-max(values.shape) // max_cells)
    note = ""
    if patch > 1:
        note = message("pictures.pooled", patch=patch, part=message(f"word.{part}"))
        values = values.masked_fill(~mask, -torch.inf)
        values = F.max_pool2d(values[None], patch, ceil_mode=True)[0]
        mask = F.max_pool2d(mask[None].float(), patch, ceil_mode=True)[0] > 0
    return Matrix(
        title=message("pictures.head", head=selection.head),
        rows=trace.pieces(selection.side)[::patch],
        columns=selection.key_pieces(trace)[::patch],
        values=_cells(values, mask),
        scale=scale,
        address="" if note else f"{selection.head_name}.{part}",
        pooled=note,
        patch=patch,
    )


def _start(place: int, pieces: tuple[str, ...]) -> int:
    """The first place of a part that holds `place`; it moves by half its length, or not at all."""
    half = MAX_CELLS // 2
    return max(0, min(place // half * half - half // 2, len(pieces) - MAX_CELLS))


def _cells(values: Tensor, mask: Tensor) -> tuple[tuple[float | None, ...], ...]:
    return tuple(
        tuple(value if is_visible else None for value, is_visible in zip(row, visible, strict=True))
        for row, visible in zip(to_list(values), to_list(mask), strict=True)
    )
