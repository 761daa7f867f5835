"""Scores: how well a query matches each key, before the mask and the softmax."""

from __future__ import annotations

import math

from pellucid.catalogue import message
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
            sentence=message("scores.this-layer-computes-no-scores"),
            notes=(attention_heads.NO_SCORES,),
        )
    cap = scoring.soft_cap
    is_hidden = not bool(attention_heads.mask(attention)[token, other])
    has_bias = attention_heads.bias(attention, selection.head) is not None
    is_usual = math.isclose(scoring.scale, width**-0.5, rel_tol=1e-6)
    reason = message("scores.one-over-the-root-of")
    products = trace[cell(f"{name}.q", token)].double() * trace[cell(f"{name}.k", other)].double()
    return Content(
        sentence=message(
            "scores.how-well-does-the-query",
            query=selection.query(trace),
            key_token=selection.key(trace),
            width=width,
            scale=scoring.scale,
            reason=reason if is_usual else "",
        ),
        pictures=(
            whole_map(trace, selection, "scores", "diverging"),
            head_map(trace, selection, "scores", "diverging"),
            bars(
                message("scores.products-of-query-and-key"),
                products,
                largest(products.abs(), _TERMS),
                lambda feature: f"q{feature} × k{feature}",
            ),
        ),
        receipts=(score_receipt(trace, selection),),
        notes=(
            None if cap is None else message("scores.a-soft-cap-keeps-scores", cap=-cap, cap2=cap),
            message("scores.positions-add-a-bias-to") if has_bias else None,
            message("scores.the-map-leaves-masked-cells"),
            message("scores.key-is-hidden-from-query", other=other, token=token)
            if is_hidden
            else None,
        ),
    )
