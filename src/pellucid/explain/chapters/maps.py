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
MOST = 48


def head_map(
    trace: Trace, chosen: Selection, what: str, scale: Literal["sequential", "diverging"]
) -> Matrix:
    """The scores or weights of a head, about the chosen query and key; what is masked is None."""
    attention = chosen.attention(trace)
    values, mask = trace[f"{chosen.head_name}.{what}"].float(), attention_heads.mask(attention)
    rows, columns = (
        trace.pieces(chosen.side),
        trace.pieces("encoder" if chosen.cross else chosen.side),
    )
    first_row, first_column = _start(chosen.token, len(rows)), _start(chosen.other, len(columns))
    down, across = slice(first_row, first_row + MOST), slice(first_column, first_column + MOST)
    note = ""
    if max(len(rows), len(columns)) > MOST:
        note = (
            f"cut out: queries {first_row} to {min(first_row + MOST, len(rows)) - 1} of "
            f"{len(rows)}, keys {first_column} to "
            f"{min(first_column + MOST, len(columns)) - 1} of {len(columns)}"
        )
    return Matrix(
        title=f"{what} of {chosen.head_name}: queries down, keys across",
        rows=rows[down],
        columns=columns[across],
        values=_cells(values[down, across], mask[down, across]),
        scale=scale,
        address=f"{chosen.head_name}.{what}",
        pooled=note,
        first_row=first_row,
        first_column=first_column,
    )


def pooled_map(trace: Trace, chosen: Selection, most: int = 32) -> Matrix:
    """A head's weights small enough for a thumbnail: the largest of each patch."""
    weights = trace[f"{chosen.head_name}.weights"].float()
    mask = attention_heads.mask(chosen.attention(trace))
    queries, keys = weights.shape
    patch = -(-max(queries, keys) // most)
    note = ""
    if patch > 1:
        note = f"pooled: each cell is the largest of {patch} x {patch} weights"
        weights = F.max_pool2d(weights[None], patch, ceil_mode=True)[0]
        mask = F.max_pool2d(mask[None].float(), patch, ceil_mode=True)[0] > 0
    return Matrix(
        title=f"head {chosen.head}",
        rows=_labels(trace.pieces(chosen.side), patch),
        columns=_labels(trace.pieces("encoder" if chosen.cross else chosen.side), patch),
        values=_cells(weights, mask),
        scale="sequential",
        address="" if note else f"{chosen.head_name}.weights",
        pooled=note,
    )


def _start(chosen: int, count: int) -> int:
    """Where a part begins that holds what was chosen, about two thirds in."""
    return max(0, min(chosen - 2 * MOST // 3, count - MOST))


def _cells(values: Tensor, mask: Tensor) -> tuple[tuple[float | None, ...], ...]:
    return tuple(
        tuple(value if is_visible else None for value, is_visible in zip(row, shows, strict=True))
        for row, shows in zip(to_list(values), to_list(mask), strict=True)
    )


def _labels(pieces: tuple[str, ...], patch: int) -> tuple[str, ...]:
    return pieces[::patch]
