"""Scores: how well a query matches each key, before the mask and the softmax."""

from __future__ import annotations

import math

from pellucid.explain import attention_heads
from pellucid.explain.chapter_types import Content
from pellucid.explain.chapters.pictures import bars, head_map, largest, whole_map
from pellucid.explain.receipts import score_receipt
from pellucid.explain.receipts.builder import cell
from pellucid.explain.selection import Selection
from pellucid.explain.trace_types import Trace

_TERMS = 12


def build(trace: Trace, selection: Selection) -> Content:
    """All scores of a head, and one as the sum of its products."""
    attention, name = selection.attention(trace), selection.head_name
    token, other = selection.token, selection.other
    scoring, width = attention.scoring, attention.q.shape[-1]
    if scoring is None:
        return Content(
            sentence="This layer computes no scores.", notes=(attention_heads.NO_SCORES,)
        )
    cap = scoring.soft_cap
    is_hidden = not bool(attention_heads.mask(attention)[token, other])
    has_bias = attention_heads.bias(attention, selection.head) is not None
    is_usual = math.isclose(scoring.scale, width**-0.5, rel_tol=1e-6)
    reason = ", one over the root of their number, so that wide heads do not shout"
    products = trace[cell(f"{name}.q", token)].double() * trace[cell(f"{name}.k", other)].double()
    return Content(
        sentence=f"How well does the query of {selection.query(trace)} match the key of "
        f"{selection.key(trace)}? Their {width} features are multiplied and summed, times "
        f"{scoring.scale:.6g}{reason if is_usual else ''}.",
        pictures=(
            whole_map(trace, selection, "scores", "diverging"),
            head_map(trace, selection, "scores", "diverging"),
            bars(
                "products of query and key, the largest first, before scaling",
                products,
                largest(products.abs(), _TERMS),
                lambda feature: f"q{feature} × k{feature}",
            ),
        ),
        receipts=(score_receipt(trace, selection),),
        notes=(
            None
            if cap is None
            else f"a soft cap keeps scores between {-cap:g} and {cap:g}, before any bias",
            "positions add a bias to each score" if has_bias else None,
            "the map leaves masked cells empty: a query may not look there",
            f"key {other} is hidden from query {token}: its score is computed, and not used"
            if is_hidden
            else None,
        ),
    )
