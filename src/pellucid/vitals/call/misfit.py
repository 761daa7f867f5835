"""Masks of padding that belong to other rows: they hide tokens here, and show padding there."""

from __future__ import annotations

import torch

from pellucid.vitals.call.arguments import Arguments

#: A mask is off by so many places at least, and a row so long: a few tokens may be left out.
_FEWEST, _SHORTEST = 3, 8


def misfit(arguments: Arguments) -> float | None:
    """The smaller share of two: rows whose tokens the mask hides, and rows whose padding it shows.

    Of rows that are filled up at their end. None without a mask of zeros and ones, or without a row
    that ends in padding.

    Args:
        arguments: The call.
    """
    place = arguments.ids if arguments.source is None else arguments.source
    ids, mask = arguments.tensor(place), arguments.tensor(arguments.mask)
    if ids is None or mask is None or ids.ndim != 2 or mask.shape != ids.shape:
        return None
    time = ids.shape[1]
    is_shown = mask == 1
    lengths = is_shown.sum(1)
    places = torch.arange(time, device=ids.device)
    if ids.is_floating_point() or time < _SHORTEST or not bool((is_shown | (mask == 0)).all()):
        return None
    if not bool((is_shown == (places < lengths[:, None])).all()):
        return None
    pads = (ids == ids[:, -1:]).flip(1).long().cumprod(1).sum(1)
    last = ids[pads >= _FEWEST, -1]
    if not len(last) or bool((last != last[0]).any()):
        return None
    real = torch.where(ids[:, -1] == last[0], time - pads, time)
    hides = (real - lengths >= _FEWEST).double().mean()
    shows = (lengths - real >= _FEWEST).double().mean()
    return float(torch.minimum(hides, shows))
