"""Softmax: scores become weights that sum to one, and the weights average the values."""

from __future__ import annotations

from typing import assert_never

from pellucid.explain import attention_heads
from pellucid.explain.attention_record import AttentionRecord
from pellucid.explain.chapter_types import Content
from pellucid.explain.chapters.pictures import bars, head_map, largest, whole_map
from pellucid.explain.receipts import out_receipt, product_receipt, weight_receipt
from pellucid.explain.selection import Selection, label
from pellucid.explain.trace_types import Trace
from pellucid.model.facts import (
    LatentAttentionFacts,
    LinearAttentionFacts,
    NeuralMemoryFacts,
    SoftmaxAttentionFacts,
)

_KEYS = 16


def build(trace: Trace, selection: Selection) -> Content:
    """The keys that a query looks at, and one feature of the head's output."""
    weights = trace[f"{selection.head_name}.weights"][selection.token].double()
    pieces, keys = selection.key_pieces(trace), largest(weights, _KEYS)
    return Content(
        sentence=f"{selection.query(trace)} looks most at {label(pieces, keys[0])}, with a "
        f"weight of {float(weights[keys[0]]):.3f}; the head's output is the sum of the values of "
        "all keys, each times its weight.",
        pictures=(
            whole_map(trace, selection, "weights", "sequential"),
            head_map(trace, selection, "weights", "sequential"),
            bars(
                f"where {selection.query(trace)} looks",
                weights,
                keys,
                lambda key: label(pieces, key),
                "share",
            ),
        ),
        receipts=(
            weight_receipt(trace, selection),
            product_receipt(trace, selection),
            out_receipt(trace, selection),
        ),
        notes=_notes(trace, selection.attention(trace), selection),
    )


def _notes(trace: Trace, attention: AttentionRecord, selection: Selection) -> list[str]:
    notes: list[str] = []
    scale = trace.scales.get(selection.as_head())
    if scale is not None:
        effect = (
            "replaced by its mean over the sentence"
            if scale == "mean"
            else f"multiplied by {scale:g}"
        )
        notes.append(f"the output of this head is {effect}")
    if attention.positions.adds_values:
        notes.append("positions add a vector of their own to each value")
    scoring = attention.scoring
    if scoring is not None and scoring.sinks is not None:
        notes.append("a sink takes the share that is missing from 1: a head may look at nothing")
    match attention.facts:
        case LinearAttentionFacts():
            notes.append(
                "linear attention has no softmax: these are the shares of each key in the sums "
                "that it divides; with rotary positions they need not add up to 1"
            )
        case NeuralMemoryFacts():
            notes.append("this is the output of the window; a gate mixes it with the memory's")
        case SoftmaxAttentionFacts(output_gate=str()):
            notes.append("a gate multiplies this output: a head can be silent at a token")
        case SoftmaxAttentionFacts() | LatentAttentionFacts():
            pass
        case _:
            assert_never(attention.facts)
    if not bool(attention_heads.mask(attention).all()):
        notes.append("masked cells are empty: their share is 0")
    if attention.window is not None:
        notes.append(f"a query sees {attention.window} keys at most")
    return notes
