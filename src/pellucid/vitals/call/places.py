"""Which places of a call's rows are given other tokens, to see which outputs move."""

from __future__ import annotations

from typing import Any, cast

from torch import Tensor

from pellucid.batches import IGNORED
from pellucid.vitals.call.alignment import Alignment


def places_to_change(
    inputs: Tensor, tokens: Tensor | None, targets: Tensor | None, aligned: Alignment | None
) -> list[tuple[int, int, int]]:
    """For each row but the last: the first and the last place to change, and one that is paid for.

    A row changes from the target's own place on, or only there if the target is at or before the
    place that is paid for.

    Args:
        inputs: the rows (rows, time, ...) of the call.
        tokens: their ids (rows, time), if they are known.
        targets: the target of each place, `IGNORED` if it has none.
        aligned: how far the targets are from the inputs.
    """
    time = inputs.shape[1]
    is_aligned = aligned is not None and aligned.is_clear
    offset = aligned.offset if aligned is not None and is_aligned else 1
    places: list[tuple[int, int, int]] = []
    n_changed = count_changed(inputs)
    for row in range(n_changed):
        middle = max(1, time * (row + 1) // (n_changed + 1))
        paid: list[int] = []
        if tokens is not None and targets is not None:
            paid = _paid_places(tokens[row], targets[row], offset, exact=is_aligned)
        place = min(paid, key=lambda t: abs(t + offset - middle), default=middle - offset)
        first = min(max(0, place + offset), time - 1)
        places.append((first, time if offset > 0 else first + 1, min(max(0, place), time - 1)))
    return places


def count_changed(inputs: Tensor) -> int:
    """How many rows are changed: all but the last one; one if there is no other."""
    return max(1, len(inputs) - 1)


def _paid_places(inputs: Tensor, targets: Tensor, offset: int, *, exact: bool) -> list[int]:
    time = len(inputs)
    paid: list[int] = cast("Any", (targets != IGNORED).nonzero()[:, 0]).tolist()
    return [
        t
        for t in paid
        if 0 <= t + offset < time and (not exact or bool(inputs[t + offset] == targets[t]))
    ]
