"""Scales of heads, checked against the heads of the model.

It runs only the layers that it checks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pellucid.errors import PellucidError
from pellucid.explain.addresses.syntax import parse_head
from pellucid.explain.forward_pass import HeadPlace, HeadScale
from pellucid.explain.trace_types import Trace


def check_scales(trace: Trace, scales: Mapping[Any, HeadScale]) -> dict[HeadPlace, HeadScale]:
    """Check the scales of heads, by their place.

    Raises:
        PellucidError: there is no such head, or a scale is neither finite nor "mean".
    """
    head_scales: dict[HeadPlace, HeadScale] = {
        _place(trace, key): _scale(scale) for key, scale in scales.items()
    }
    for place, scale in head_scales.items():
        attention = trace.attention(place.side, place.layer, cross=place.cross)
        gated = attention.gate is not None or attention.output_gate is not None
        if scale == "mean" and gated:
            raise PellucidError(
                "the output of this head passes a gate at each token, so its mean has no receipt: "
                "take it away with 0, or scale it"
            )
    return head_scales


def _place(trace: Trace, key: Any) -> HeadPlace:
    place = parse_head(key) if isinstance(key, str) else HeadPlace(trace.side, *key)
    heads = trace.attention(place.side, place.layer, cross=place.cross).n_heads
    if not 0 <= place.head < heads:
        raise PellucidError(
            f"there is no head {place.head}: layer {place.layer} has {heads}, counted from 0"
        )
    return place


def _scale(scale: HeadScale) -> HeadScale:
    if scale == "mean":
        return "mean"
    if isinstance(scale, str) or not math.isfinite(scale):
        raise PellucidError(f'a head counts by a finite number or by "mean", not by {scale!r}')
    return float(scale)
