"""Positions: how a model knows where a token stands; each scheme where it acts."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal, assert_never

from pellucid.explain import attention_heads
from pellucid.explain.chapter_types import Bars, Chapter, Lines, Picture, Place, Receipt, Table
from pellucid.explain.receipts import position_receipt, rotation_receipt, score_receipt
from pellucid.explain.receipts.builder import at
from pellucid.explain.receipts.sums import stack_prefix
from pellucid.explain.selection import Selection, select_place
from pellucid.explain.trace_types import Trace
from pellucid.model.facts import (
    AddedPositionFacts,
    DistanceBiasFacts,
    DistanceVectorFacts,
    LinearAttentionFacts,
    NeuralMemoryFacts,
    NoPositionFacts,
    RotaryFacts,
    SoftmaxAttentionFacts,
    UnknownFacts,
    position_facts,
)
from pellucid.typed import to_list

_FEATURES, _PAIRS = 24, 8
_NO_POSITIONS = {
    "decoder": "Nothing is added that tells where a token stands: only the mask, which hides what "
    "comes later, tells tokens apart by their place.",
    "encoder": "Nothing is added that tells where a token stands, and every token sees all others: "
    "the text is read without its order.",
}
_Parts = tuple[str, list[Picture], list[Receipt | None]]


def _describe_bias(rule: Literal["slope", "bucket"]) -> str:
    match rule:
        case "slope":
            return "a penalty that grows with the distance, each head at its own slope"
        case "bucket":
            return "a learnt number for each head and range of distances"
        case _:
            assert_never(rule)


def build(trace: Trace, place: Place) -> Chapter:
    """What the stack's scheme does at the chosen place."""
    if place.cross:  # positions act within one text
        place = replace(place, cross=False, other=0)
    selection = select_place(trace, place)
    notes: list[str] = []
    stated = position_facts(trace.stack_pass(selection.side).positions)
    match stated:
        case AddedPositionFacts(learned=learned):
            sentence, pictures, receipts = _show_added(trace, selection, learned=learned)
        case RotaryFacts() as facts:
            sentence, pictures, receipts = _show_rotation(trace, selection, facts)
        case DistanceBiasFacts(rule=rule):
            sentence, pictures, receipts = _show_bias(trace, selection, _describe_bias(rule))
        case DistanceVectorFacts():
            sentence, pictures, receipts = _show_bias(
                trace, selection, "the query's product with a learnt vector for each distance"
            )
        case NoPositionFacts():
            sentence, pictures, receipts = _NO_POSITIONS[selection.side], [], []
        case UnknownFacts(part=part):
            sentence, pictures, receipts = f"{part} does not say what it does.", [], []
        case _:
            assert_never(stated)
    if selection.side == "decoder" and len(trace.sides) == 2:
        notes.append("attention to the encoder knows no order: positions act within one text")
    return Chapter(
        sentence=sentence,
        pictures=tuple(pictures),
        receipts=tuple(receipt for receipt in receipts if receipt is not None),
        notes=tuple(notes),
    )


def _show_added(trace: Trace, selection: Selection, *, learned: bool) -> _Parts:
    added = trace[at(f"{stack_prefix(trace, selection.side)}positions", selection.token)]
    n_shown = min(_FEATURES, len(added))
    sentence = f"A vector for place {selection.token} is added to the embedding: " + (
        "it was learnt, one for each place." if learned else "sines and cosines, not learnt."
    )
    picture = Bars(
        title=f"what place {selection.token} adds: the first {n_shown} of {len(added)} features",
        names=tuple(map(str, range(n_shown))),
        values=tuple(to_list(added[:n_shown].float())),
    )
    return sentence, [picture], [position_receipt(trace, selection)]


def _show_rotation(trace: Trace, selection: Selection, facts: RotaryFacts) -> _Parts:
    scheme = trace.stack_pass(selection.side).positions
    cos, sin = (scheme.get_buffer(name)[selection.token] for name in (facts.cos, facts.sin))
    half = facts.n_rotated // 2
    attention = selection.attention(trace)
    assert attention.q_plain is not None
    plain, rotated = (
        attention.q_plain[0, selection.head, selection.token],
        attention.q[0, selection.head, selection.token],
    )
    rows: list[tuple[str | float | int, ...]] = []
    for pair in range(min(half, _PAIRS)):
        i, j = (pair, pair + half) if facts.pairing == "half_split" else (2 * pair, 2 * pair + 1)
        angle = math.degrees(math.atan2(float(sin[i]), float(cos[i])))
        pairs = (float(plain[i]), float(plain[j]), angle, float(rotated[i]), float(rotated[j]))
        rows.append((f"{i}, {j}", *pairs))
    title = f"pairs of the query of {selection.head_name}" + (
        f": the first {_PAIRS} of {half}" if half > _PAIRS else ""
    )
    picture = Table(
        title=title, columns=("pair", "x", "y", "degrees", "x turned", "y turned"), rows=tuple(rows)
    )
    width = attention.q.shape[-1]
    part = f"{facts.n_rotated} of the {width} features of " if facts.n_rotated < width else ""
    sentence = (
        f"Nothing is added: {part}queries and keys are turned, pair by pair, by an angle that "
        f"grows with the place (here {selection.token}), so that their product depends on the "
        "distance."
    )
    receipts = [rotation_receipt(trace, selection, vector) for vector in ("q", "k")]
    return sentence, [picture], [*receipts]


def _show_bias(trace: Trace, selection: Selection, rule: str) -> _Parts:
    attention = selection.attention(trace)
    match attention.facts:
        case LinearAttentionFacts():
            return "Positions act on scores here, and linear attention has none.", [], []
        case SoftmaxAttentionFacts() | NeuralMemoryFacts():
            pass
        case _:
            assert_never(attention.facts)
    bias = attention_heads.bias(attention, selection.head)
    assert bias is not None
    line = to_list(bias[selection.token].float())
    picture = Lines(
        title=f"what is added to the scores of {selection.query(trace)} in {selection.head_name}",
        names=("bias",),
        x=tuple(float(key - selection.token) for key in range(len(line))),
        series=(tuple(line),),
        x_unit="key's place minus query's",
    )
    sentence = f"No vector is told its place: to the score of a query and a key is added {rule}."
    if attention.positions.adds_values:
        sentence += " To each value is added a learnt vector for its distance, too."
    return sentence, [picture], [score_receipt(trace, selection)]
