"""An id that stands at even distances in a text, as padding or an end between its tokens."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

import torch
from jaxtyping import Int
from torch import Tensor

#: Fewer tokens say nothing, and fewer gaps from one place of an id to the next.
_FEWEST_TOKENS, _FEWEST_GAPS = 256, 32
#: An id that fills every so many places has nearly all of its gaps so wide; a special one, which
#: also ends texts, most of them.
_PERIODS, _NEARLY_ALL, _MOST = (2, 3, 4), 0.85, 0.6
#: So many of the most frequent ids are looked at: padding may be one of them.
_FREQUENT = 3


def filled(ids: Int[Tensor, "rows time"], named: Collection[int] = ()) -> float:
    """The share of places that one id fills at an even distance; 0 if none does.

    Texts that are joined begin anew, each at a distance of its own.

    Args:
        ids: Rows of text.
        named: Special ids, which no text holds at even distances.
    """
    if ids.numel() < _FEWEST_TOKENS:
        return 0.0
    values, counts = cast("Any", torch).unique(ids, return_counts=True)
    for place in counts.topk(min(_FREQUENT, len(counts))).indices:
        rows, places = (ids == values[place]).nonzero().unbind(1)
        gaps = places.diff()[rows.diff() == 0]
        if len(gaps) < _FEWEST_GAPS:
            continue
        gap, is_named = int(gaps.mode().values), int(values[place]) in named
        is_even = float((gaps == gap).double().mean()) >= (_MOST if is_named else _NEARLY_ALL)
        if gap in _PERIODS and is_even:
            return 1 / gap
    return 0.0
