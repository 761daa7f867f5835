"""Squares of queries and keys as pictures: if they do not fit, cut out or pooled, and said so."""

from __future__ import annotations

from typing import Literal

from torch import Tensor
from torch.nn import functional as F

from pellucid.explain import attention_heads
from pellucid.explain.chapter_types import Matrix
from pellucid.explain.selection import Selection
from pellucid.explain.trace_types import Trace
from pellucid.typed import to_list

#: Rows and columns of a map, at most; a chapter is to stay small, however long the text.
MAX_CELLS = 48


def head_map(
    trace: Trace, selection: Selection, part: str, scale: Literal["sequential", "diverging"]
) -> Matrix:
    """The scores or weights of a head, about the chosen query and key; what is masked is None."""
    attention = selection.attention(trace)
    values, mask = trace[f"{selection.head_name}.{part}"].float(), attention_heads.mask(attention)
    rows, columns = (
        trace.pieces(selection.side),
        trace.pieces("encoder" if selection.cross else selection.side),
    )
    first_row, first_column = (
        _start(selection.token, len(rows)),
        _start(selection.other, len(columns)),
    )
    shown_rows, shown_columns = (
        slice(first_row, first_row + MAX_CELLS),
        slice(first_column, first_column + MAX_CELLS),
    )
    note = ""
    if max(len(rows), len(columns)) > MAX_CELLS:
        note = (
            f"cut out: queries {first_row} to {min(first_row + MAX_CELLS, len(rows)) - 1} of "
            f"{len(rows)}, keys {first_column} to "
            f"{min(first_column + MAX_CELLS, len(columns)) - 1} of {len(columns)}"
        )
    return Matrix(
        title=f"{part} of {selection.head_name}: queries down, keys across",
        rows=rows[shown_rows],
        columns=columns[shown_columns],
        values=_cells(values[shown_rows, shown_columns], mask[shown_rows, shown_columns]),
        scale=scale,
        address=f"{selection.head_name}.{part}",
        pooled=note,
        first_row=first_row,
        first_column=first_column,
    )


def pooled_map(trace: Trace, selection: Selection, max_cells: int = 32) -> Matrix:
    """A head's weights small enough for a thumbnail: the largest of each patch."""
    weights = trace[f"{selection.head_name}.weights"].float()
    mask = attention_heads.mask(selection.attention(trace))
    queries, keys = weights.shape
    patch = -(-max(queries, keys) // max_cells)
    note = ""
    if patch > 1:
        note = f"pooled: each cell is the largest of {patch} x {patch} weights"
        weights = F.max_pool2d(weights[None], patch, ceil_mode=True)[0]
        mask = F.max_pool2d(mask[None].float(), patch, ceil_mode=True)[0] > 0
    return Matrix(
        title=f"head {selection.head}",
        rows=_labels(trace.pieces(selection.side), patch),
        columns=_labels(trace.pieces("encoder" if selection.cross else selection.side), patch),
        values=_cells(weights, mask),
        scale="sequential",
        address="" if note else f"{selection.head_name}.weights",
        pooled=note,
    )


def _start(selection: int, count: int) -> int:
    """Where a part begins that holds what was chosen, about two thirds in."""
    return max(0, min(selection - 2 * MAX_CELLS // 3, count - MAX_CELLS))


def _cells(values: Tensor, mask: Tensor) -> tuple[tuple[float | None, ...], ...]:
    return tuple(
        tuple(value if is_visible else None for value, is_visible in zip(row, shows, strict=True))
        for row, shows in zip(to_list(values), to_list(mask), strict=True)
    )


def _labels(pieces: tuple[str, ...], patch: int) -> tuple[str, ...]:
    return pieces[::patch]
