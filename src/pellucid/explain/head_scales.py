"""Scales of heads, checked against the heads of the model.

It runs only the layers that it checks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pellucid.catalogue import message
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
            raise PellucidError(message("head_scales.the-output-of-this-head"))
    return head_scales


def _place(trace: Trace, key: Any) -> HeadPlace:
    place = parse_head(key) if isinstance(key, str) else HeadPlace(trace.side, *key)
    heads = trace.attention(place.side, place.layer, cross=place.cross).n_heads
    if not 0 <= place.head < heads:
        raise PellucidError(
            message(
                "head_scales.there-is-no-head-layer",
                head=place.head,
                layer=place.layer,
                heads=heads,
            )
        )
    return place


def _scale(scale: HeadScale) -> HeadScale:
    if scale == "mean":
        return "mean"
    if isinstance(scale, str) or not math.isfinite(scale):
        raise PellucidError(message("head_scales.a-head-counts-by-a", scale=repr(scale)))
    return float(scale)
