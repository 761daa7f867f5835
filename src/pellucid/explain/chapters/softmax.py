"""Softmax: scores become weights that sum to one, and the weights average the values."""

from __future__ import annotations

from typing import assert_never

from pellucid.catalogue import message
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
        sentence=message(
            "softmax.looks-most-at-with-a",
            query=selection.query(trace),
            token=label(pieces, keys[0]),
            weights=float(weights[keys[0]]),
        ),
        pictures=(
            whole_map(trace, selection, "weights", "sequential"),
            head_map(trace, selection, "weights", "sequential"),
            bars(
                message("softmax.where-looks", query=selection.query(trace)),
                weights,
                keys,
                lambda key: label(pieces, key),
                message("word.share"),
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
            message("softmax.replaced-by-its-mean-over")
            if scale == "mean"
            else message("softmax.multiplied-by", scale=scale)
        )
        notes.append(message("softmax.the-output-of-this-head", effect=effect))
    if attention.positions.adds_values:
        notes.append(message("softmax.positions-add-a-vector-of"))
    scoring = attention.scoring
    if scoring is not None and scoring.sinks is not None:
        notes.append(message("softmax.a-sink-takes-the-share"))
    match attention.facts:
        case LinearAttentionFacts():
            notes.append(message("softmax.linear-attention-has-no-softmax"))
        case NeuralMemoryFacts():
            notes.append(message("softmax.this-is-the-output-of"))
        case SoftmaxAttentionFacts(output_gate=str()):
            notes.append(message("softmax.a-gate-multiplies-this-output"))
        case SoftmaxAttentionFacts() | LatentAttentionFacts():
            pass
        case _:
            assert_never(attention.facts)
    if not bool(attention_heads.mask(attention).all()):
        notes.append(message("softmax.masked-cells-are-empty-their"))
    if attention.window is not None:
        notes.append(message("softmax.a-query-sees-keys-at", window=attention.window))
    return notes
