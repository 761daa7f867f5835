"""Updates that a log counts anew in each epoch, counted through the whole training.

Must not know: how a log is read, or what its numbers say.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import pairwise

from pellucid.diagnosis.logs.columns import kind_of, plain
from pellucid.diagnosis.logs.lines import Row

#: A loss before and after a restart is the mean of so many rows.
_ROWS = 3


def through_epochs(rows: Sequence[Row], counter: str) -> Sequence[Row]:
    """The rows with updates that never begin anew; the same rows if a restart is a resumption.

    At a restart within one training either the number of the epoch rises, or the count begins where
    the log began, but the loss does not.

    Args:
        rows: the rows of a log.
        counter: the name of the column that counts updates.
    """
    rows_with_steps = [row for row in rows if counter in row]
    restarts = [
        place
        for place, (before, after) in enumerate(pairwise(rows_with_steps), start=1)
        if after[counter] < before[counter]
    ]
    if not restarts or not all(_is_an_epoch(rows_with_steps, counter, place) for place in restarts):
        return rows
    first, offset, last = rows_with_steps[0][counter], 0.0, 0.0
    numbered: list[Row] = []
    for row in rows:
        if counter in row:
            if row[counter] < last:
                offset += last + (first == 0)
            last = row[counter]
            row = row | {counter: offset + last}
        numbered.append(row)
    return numbered


def _is_an_epoch(rows: Sequence[Row], counter: str, place: int) -> bool:
    """Whether the count restarts at a row because an epoch does."""
    before, after = (_epoch_of(row) for row in rows[place - 1 : place + 1])
    if before is not None and after is not None:
        return int(after) > int(before)
    start, before_losses, after_losses = (
        _losses_of(rows[max(0, first) : first + _ROWS]) for first in (0, place - _ROWS, place)
    )
    if rows[place][counter] > rows[0][counter] or not (start and before_losses and after_losses):
        return False
    from_start, from_before = (
        abs(statistics.mean(after_losses) - statistics.mean(losses))
        for losses in (start, before_losses)
    )
    return from_before < from_start / 2


def _losses_of(rows: Sequence[Row]) -> list[float]:
    return [
        value
        for row in rows
        for name, value in row.items()
        if (kind := kind_of(name)) is not None and kind[0] == "loss"
    ]


def _epoch_of(row: Row) -> float | None:
    return next((value for name, value in row.items() if plain(name) == "epoch"), None)
