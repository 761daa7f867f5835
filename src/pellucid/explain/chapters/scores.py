"""Scores: how well a query matches each key, before the mask and the softmax."""

from __future__ import annotations

import math

from pellucid.explain import attention_heads
from pellucid.explain.chapter_types import Bars, Chapter, Place
from pellucid.explain.chapters.maps import head_map
from pellucid.explain.receipts import score_receipt
from pellucid.explain.receipts.builder import at
from pellucid.explain.selection import Selection, select_place
from pellucid.explain.trace_types import Trace
from pellucid.typed import to_list

_TERMS = 12


def build(trace: Trace, place: Place) -> Chapter:
    """All scores of a head, and one as the sum of its products."""
    selection = select_place(trace, place)
    attention = selection.attention(trace)
    scoring = attention.scoring
    if scoring is None:
        return Chapter(sentence="This layer scores nothing.", notes=(attention_heads.NO_SCORES,))
    hidden = not bool(attention_heads.mask(attention)[selection.token, selection.other])
    biased = attention_heads.bias(attention, selection.head) is not None
    notes = (
        *(
            (f"a soft cap keeps scores between {-cap:g} and {cap:g}, before any bias",)
            if (cap := scoring.soft_cap) is not None
            else ()
        ),
        *(("positions add a bias to each score",) if biased else ()),
        "the map leaves masked cells empty: a query may not look there",
        *(
            (
                f"key {selection.other} is hidden from query {selection.token}: its score is "
                "computed, and not used",
            )
            if hidden
            else ()
        ),
    )
    return Chapter(
        sentence=f"How well does the query of {selection.query(trace)} match the key of "
        f"{selection.key(trace)}? Their {attention.q.shape[-1]} features are multiplied and "
        f"summed, times {scoring.scale:.6g}{_explain_scale(scoring.scale, attention.q.shape[-1])}.",
        pictures=(head_map(trace, selection, "scores", "diverging"), _terms(trace, selection)),
        receipts=(score_receipt(trace, selection),),
        notes=notes,
    )


def _explain_scale(scale: float, width: int) -> str:
    """What the scale is for, if it is the usual one."""
    usual = math.isclose(scale, width**-0.5, rel_tol=1e-6)
    return ", one over the root of their number, so that wide heads do not shout" if usual else ""


def _terms(trace: Trace, selection: Selection) -> Bars:
    """The products that make the score, the largest first."""
    name = selection.head_name
    q, k = trace[at(f"{name}.q", selection.token)], trace[at(f"{name}.k", selection.other)]
    products = q.double() * k.double()
    order = products.abs().argsort(descending=True, stable=True)[:_TERMS]
    remaining = float(products.sum() - products[order].sum()) if len(products) > _TERMS else None
    return Bars(
        title="products of query and key, the largest first, before scaling",
        names=tuple(f"q{feature} × k{feature}" for feature in to_list(order)),
        values=tuple(to_list(products[order])),
        rest=remaining,
    )
