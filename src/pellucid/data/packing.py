"""Which lengths go into a row together: best fit, the longest first.

Comes in: how long each example is. Goes out: rows of places for examples. It does not know tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pellucid.errors import TextError

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Packing:
    """Places for examples, and the row that each is in.

    Place i takes an example of `lengths[i]` tokens; lengths fall. The places of row r are
    `places[starts[r] : starts[r + 1]]`.
    """

    lengths: Indices
    places: Indices
    starts: Indices

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.starts) - 1


def pack(lengths: Indices, row_length: int) -> Packing:
    """As few rows of `row_length` as best fit decreasing finds.

    Each example, the longest first, goes into the row that it leaves the least room in; where it
    fits into none, a new row begins.

    Raises:
        TextError: an example is longer than a row.

    Source:
        Johnson et al. 1974, "Worst-Case Performance Bounds for Simple One-Dimensional Packing
        Algorithms": at most 11/9 of the fewest rows possible, and 4 more.
    """
    if len(lengths) and lengths.max() > row_length:
        raise TextError(
            f"an example has {lengths.max():,} tokens, more than the {row_length:,} of a row: cut "
            "it before it is packed, or raise model.context_length"
        )
    falling = np.sort(lengths)[::-1]
    row_of = np.empty(len(falling), dtype=np.int64)
    with_room: dict[int, list[int]] = {}
    rooms = 0  # bit r is 1 where there are rows with room for r tokens
    rows = 0
    for place, length in enumerate(falling.tolist()):
        fits = rooms >> length
        if fits:
            room = length + (fits & -fits).bit_length() - 1
            row = with_room[room].pop()
            if not with_room[room]:
                rooms &= ~(1 << room)
        else:
            room, row = row_length, rows
            rows += 1
        row_of[place] = row
        with_room.setdefault(room - length, []).append(row)
        rooms |= 1 << (room - length)
    counts = np.bincount(row_of, minlength=rows)
    return Packing(
        lengths=falling,
        places=np.argsort(row_of, kind="stable"),
        starts=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
    )
