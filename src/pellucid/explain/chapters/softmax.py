"""Softmax: scores become shares that add up to one, and the shares weigh the values."""

from __future__ import annotations

from typing import assert_never

from pellucid.explain import attention_heads
from pellucid.explain.attention_record import AttentionRecord
from pellucid.explain.chapter_types import Bars, Chapter, Place
from pellucid.explain.chapters.maps import head_map
from pellucid.explain.receipts import out_receipt, product_receipt, weight_receipt
from pellucid.explain.selection import Selection, select_place
from pellucid.explain.trace_types import Trace
from pellucid.model.facts import LinearAttentionFacts, NeuralMemoryFacts, SoftmaxAttentionFacts
from pellucid.typed import to_list

_KEYS = 16


def build(trace: Trace, place: Place) -> Chapter:
    """Where a query looks, and one feature of what it finds."""
    selection = select_place(trace, place)
    attention = selection.attention(trace)
    weights = trace[f"{selection.head_name}.weights"][selection.token].double()
    order = weights.argsort(descending=True, stable=True)[:_KEYS]
    pieces = trace.pieces("encoder" if selection.cross else selection.side)
    keys: list[int] = to_list(order)
    remaining_share = float(weights.sum() - weights[order].sum()) if len(weights) > _KEYS else None
    top_key = keys[0]
    return Chapter(
        sentence=f"{selection.query(trace)} looks most at {pieces[top_key]!r} ({top_key}), with a "
        f"share of {float(weights[top_key]):.3f}; what the head finds is the values of all keys, "
        "so weighed.",
        pictures=(
            head_map(trace, selection, "weights", "sequential"),
            Bars(
                title=f"where {selection.query(trace)} looks",
                names=tuple(f"{pieces[key]!r} ({key})" for key in keys),
                values=tuple(to_list(weights[order])),
                unit="share",
                rest=remaining_share,
            ),
        ),
        receipts=(
            weight_receipt(trace, selection),
            product_receipt(trace, selection),
            out_receipt(trace, selection),
        ),
        notes=tuple(_notes(trace, attention, selection)),
    )


def _notes(trace: Trace, attention: AttentionRecord, selection: Selection) -> list[str]:
    notes: list[str] = []
    if selection.as_head() in trace.scales:
        scale = trace.scales[selection.as_head()]
        scaling = (
            "replaced by their mean over the sentence"
            if scale == "mean"
            else f"multiplied by {scale:g}"
        )
        notes.append(f"what this head found is {scaling}")
    if attention.positions.adds_values:
        notes.append("positions add a vector of their own to each value")
    scoring = attention.scoring
    if scoring is not None and scoring.sinks is not None:
        notes.append("a sink takes the share that is missing from 1: a head may look at nothing")
    match attention.facts:
        case LinearAttentionFacts():
            notes.append(
                "linear attention has no softmax: these are the shares of each key in the sums "
                "that it divides; turned by rotary positions, they need not add up to 1"
            )
        case NeuralMemoryFacts():
            notes.append(
                "this is what the window gives; a gate mixes it with what the memory gives"
            )
        case SoftmaxAttentionFacts():
            pass
        case _:
            assert_never(attention.facts)
    if not bool(attention_heads.mask(attention).all()):
        notes.append("hidden cells are masked: their share is 0")
    if attention.window is not None:
        notes.append(f"a query sees {attention.window} keys at most")
    return notes
