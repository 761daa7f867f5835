"""Squares of queries and keys as pictures: whole where they fit, else cut out or pooled, and said.

Comes in: a head's numbers. Goes out: matrices of plain numbers with their labels. It does not know
what they mean.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor
from torch.nn import functional as F

from pellucid.explain import heads
from pellucid.explain.chapter import Matrix
from pellucid.explain.places import Chosen
from pellucid.explain.tracing import Trace
from pellucid.typed import to_list

#: Rows and columns of a map, at most; a chapter is to stay small, however long the text.
MOST = 48


def head_map(
    trace: Trace, chosen: Chosen, what: str, scale: Literal["sequential", "diverging"]
) -> Matrix:
    """The scores or weights of a head, about the chosen query and key; what is masked is None."""
    look = chosen.look(trace)
    values, seen = trace[f"{chosen.head_name}.{what}"].float(), heads.mask(look)
    rows, columns = (
        trace.pieces(chosen.side),
        trace.pieces("encoder" if chosen.cross else chosen.side),
    )
    top, left = _start(chosen.token, len(rows)), _start(chosen.other, len(columns))
    down, across = slice(top, top + MOST), slice(left, left + MOST)
    told = ""
    if max(len(rows), len(columns)) > MOST:
        told = (
            f"cut out: queries {top} to {min(top + MOST, len(rows)) - 1} of {len(rows)}, keys "
            f"{left} to {min(left + MOST, len(columns)) - 1} of {len(columns)}"
        )
    return Matrix(
        title=f"{what} of {chosen.head_name}: queries down, keys across",
        rows=rows[down],
        columns=columns[across],
        values=_cells(values[down, across], seen[down, across]),
        scale=scale,
        address=f"{chosen.head_name}.{what}",
        pooled=told,
        first_row=top,
        first_column=left,
    )


def pooled_map(trace: Trace, chosen: Chosen, most: int = 32) -> Matrix:
    """A head's weights small enough for a thumbnail: the largest of each patch."""
    weights = trace[f"{chosen.head_name}.weights"].float()
    seen = heads.mask(chosen.look(trace))
    queries, keys = weights.shape
    patch = -(-max(queries, keys) // most)
    told = ""
    if patch > 1:
        told = f"pooled: each cell is the largest of {patch} x {patch} weights"
        weights = F.max_pool2d(weights[None], patch, ceil_mode=True)[0]
        seen = F.max_pool2d(seen[None].float(), patch, ceil_mode=True)[0] > 0
    return Matrix(
        title=f"head {chosen.head}",
        rows=_labels(trace.pieces(chosen.side), patch),
        columns=_labels(trace.pieces("encoder" if chosen.cross else chosen.side), patch),
        values=_cells(weights, seen),
        scale="sequential",
        address="" if told else f"{chosen.head_name}.weights",
        pooled=told,
    )


def _start(chosen: int, count: int) -> int:
    """Where a part begins that holds what was chosen, about two thirds in."""
    return max(0, min(chosen - 2 * MOST // 3, count - MOST))


def _cells(values: Tensor, seen: Tensor) -> tuple[tuple[float | None, ...], ...]:
    return tuple(
        tuple(value if shown else None for value, shown in zip(row, shows, strict=True))
        for row, shows in zip(to_list(values), to_list(seen), strict=True)
    )


def _labels(pieces: tuple[str, ...], patch: int) -> tuple[str, ...]:
    return pieces[::patch]
