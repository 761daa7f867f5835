"""Rows of ids as a loop passes them: one token alone, starts that come twice, copies, padding."""

from __future__ import annotations

from typing import Any, cast

import torch
from jaxtyping import Int
from torch import Tensor

from pellucid.vitals.call.arguments import Arguments

#: Fewer rows, and shorter ones, say nothing.
_FEWEST_ROWS, _SHORTEST = 4, 4
#: Rows are cut short if the model has room for so many times their length.
_ROOM = 4


def measure(arguments: Arguments, ids: Int[Tensor, "batch time"]) -> dict[str, float]:
    """The signs of the first batch's ids.

    Args:
        arguments: The call.
        ids: All its rows.
    """
    signs = {"batch.copies": copies(ids)}
    if len(ids) >= _FEWEST_ROWS and ids.shape[1] > _SHORTEST:
        signs["batch.doubled_start"] = doubled_start(ids)
    if is_cut_short(arguments, ids):
        signs["batch.cut_length"] = float(ids.shape[1])
    values = (*arguments.call.args, *arguments.call.kwargs.values())
    if not any(isinstance(value, Tensor) and value.is_floating_point() for value in values):
        signs["batch.length"] = float(ids.shape[1])  # no state of an earlier call comes with it
    return signs


def hidden_tokens(arguments: Arguments) -> float | None:
    """The share of rows whose mask hides their tokens: all of them, or all but one id.

    None without a mask of zeros and ones.
    """
    place = arguments.ids if arguments.source is None else arguments.source
    ids, mask = arguments.tensor(place), arguments.tensor(arguments.mask)
    if ids is None or mask is None or ids.ndim != 2 or mask.shape != ids.shape:
        return None
    if ids.is_floating_point() or ids.shape[1] < _SHORTEST:
        return None
    shown = mask == 1
    if not bool((shown | (mask == 0)).all()):
        return None
    return float((various(ids, ~shown) & ~various(ids, shown)).double().mean())


def various(ids: Tensor, places: Tensor) -> Tensor:
    """For each row, whether some places hold more than one id.

    Args:
        ids: The rows (rows, time).
        places: Which places count.
    """
    lowest = ids.masked_fill(~places, int(ids.max()) + 1).amin(1)
    highest = ids.masked_fill(~places, -1).amax(1)
    return lowest < highest


def copies(ids: Int[Tensor, "batch time"]) -> float:
    """The share of rows that are equal to a row before them."""
    if ids.shape[1] < _SHORTEST:
        return 0.0
    kinds: Tensor = cast("Any", torch).unique(ids, dim=0)
    return 1 - len(kinds) / len(ids)


def is_cut_short(arguments: Arguments, ids: Int[Tensor, "batch time"]) -> bool:
    """Whether all rows stop at one place in the middle of their text, far before they have to.

    Args:
        arguments: The call.
        ids: All its rows.
    """
    mask, time = arguments.tensor(arguments.mask), ids.shape[1]
    if len(ids) < _FEWEST_ROWS or time < 2 or (arguments.room or 0) < _ROOM * time:
        return False
    if mask is not None and not bool(mask.all()):
        return False
    # a place that holds one token in all rows is a template's, or the end of each
    return bool((ids[:, 1:] != ids[:1, 1:]).any(0).all()) and not _holds(ids[:, 1:], arguments)


def _holds(ids: Tensor, arguments: Arguments) -> bool:
    """Whether a token among them has a special meaning, such as an end."""
    special = torch.tensor(arguments.special, dtype=ids.dtype, device=ids.device)
    return bool(torch.isin(ids, special).any())


def doubled_start(ids: Int[Tensor, "batch time"]) -> float:
    """1 if all rows begin with the same id exactly twice, else 0."""
    first = ids[:, 0]
    is_same = (first == first[0]).all() & (ids[:, 1] == first).all() & (ids[:, 2] != first).all()
    return float(is_same)


def most_padded(arguments: Arguments) -> tuple[int, int, int] | None:
    """The row with the most padding at its end, its length, and that without padding.

    Without a mask, a long end of the id that the config calls padding counts.
    """
    place = arguments.ids if arguments.source is None else arguments.source
    ids, mask = arguments.tensor(place), arguments.tensor(arguments.mask)
    if ids is None or ids.ndim != 2 or ids.is_floating_point():
        return None
    time = ids.shape[1]
    places = torch.arange(time, device=ids.device)
    if mask is None and arguments.pad is None:
        return None
    is_real = ids != arguments.pad if mask is None else mask.bool()
    lengths = torch.where(is_real, places + 1, 0).amax(1)
    n_pads = time - lengths
    usable = (lengths > 1) & (n_pads > 0)
    if mask is None:
        usable &= n_pads >= max(_SHORTEST, time // 10)
    else:  # padding at the start moves the positions of what follows
        usable &= (is_real == (places < lengths[:, None])).all(1)
    if not bool(usable.any()):
        return None
    row = int(torch.where(usable, lengths, time + 1).argmin())
    return row, time, int(lengths[row])
