"""Positions: how a model knows the order of the tokens; each scheme where it acts."""

from __future__ import annotations

import math
from typing import Literal, assert_never, cast

from torch import Tensor

from pellucid.explain import attention_heads
from pellucid.explain.addresses.recompute import receipt_or_none
from pellucid.explain.chapter_types import Content, Lines, Place, Table
from pellucid.explain.chapters.pictures import feature_bars
from pellucid.explain.equations.equation import stack_prefix
from pellucid.explain.part_facts import first_rotated
from pellucid.explain.receipts import position_receipt, rotation_receipt, score_receipt
from pellucid.explain.receipts.builder import cell
from pellucid.explain.selection import Selection, select_place
from pellucid.explain.trace_types import Trace
from pellucid.model import AlternatingPositions, Rotary
from pellucid.model.facts import (
    AddedPositionFacts,
    DisentangledFacts,
    DistanceBiasFacts,
    DistanceVectorFacts,
    NoPositionFacts,
    RotaryFacts,
    UnknownFacts,
    position_facts,
)
from pellucid.typed import to_list

_PAIRS = 8
_NO_POSITIONS = {
    "decoder": "Nothing marks the position of a token: only the mask, which hides later tokens, "
    "tells tokens apart by their place.",
    "encoder": "Nothing marks the position of a token, and every token sees all others: "
    "the model reads the text without its order.",
}


def build(trace: Trace, selection: Selection) -> Content:
    """The effect of the stack's scheme at the selected place."""
    notes: list[str] = []
    if selection.side == "decoder" and len(trace.sides) == 2:
        notes.append("attention to the encoder knows no order: positions act within one text")
    if selection.cross:  # positions act within one text
        names = ("token", "layer", "head", "feature")
        place = Place(**{name: getattr(selection, name) for name in names})
        selection = select_place(trace, place)
    stack_pass = trace.stack_pass(selection.side)
    if isinstance(stack_pass.stack.positions, AlternatingPositions):
        notes.append(
            f"schemes take turns in this model: this is the one of layer {selection.layer + 1}"
        )
    facts = position_facts(stack_pass.positions(selection.layer))
    match facts:
        case AddedPositionFacts(learned=learned):
            return _show_added(trace, selection, notes, learned=learned)
        case RotaryFacts():
            return _show_rotation(trace, selection, notes, facts)
        case DistanceBiasFacts(rule=rule):
            return _show_bias(trace, selection, notes, _describe_bias(rule))
        case DistanceVectorFacts():
            rule = "the query's product with a learnt vector for each distance"
            return _show_bias(trace, selection, notes, rule)
        case DisentangledFacts():
            rule = "the products of the query and of the key with vectors of their distance"
            return _show_bias(trace, selection, notes, rule)
        case NoPositionFacts():
            return Content(sentence=_NO_POSITIONS[selection.side], notes=notes)
        case UnknownFacts(part=part):
            return Content(sentence=f"{part} does not say how it marks positions.", notes=notes)
        case _:
            assert_never(facts)


def _describe_bias(rule: Literal["slope", "bucket"]) -> str:
    match rule:
        case "slope":
            return "a penalty that grows with the distance, each head at its own slope"
        case "bucket":
            return "a learnt number for each head and range of distances"
        case _:
            assert_never(rule)


def _show_added(trace: Trace, selection: Selection, notes: list[str], *, learned: bool) -> Content:
    added = trace[cell(f"{stack_prefix(trace, selection.side)}positions", selection.token)]
    origin = "it was learnt, one for each place" if learned else "sines and cosines, not learnt"
    return Content(
        sentence=f"A vector for place {selection.token} is added to the embedding: {origin}.",
        pictures=(feature_bars(f"the vector of place {selection.token}", added),),
        receipts=(
            receipt_or_none(
                trace,
                f"{stack_prefix(trace, selection.side)}positions",
                selection.token,
                selection.feature % len(added),
            ),
            position_receipt(trace, selection),
        ),
        notes=notes,
    )


def _before_and_after(trace: Trace, selection: Selection) -> tuple[Tensor, Tensor]:
    """The features of the query that positions turn, before and after."""
    attention, head, token = selection.attention(trace), selection.head, selection.token
    after = attention.q if attention.q_turned is None else attention.q_turned
    first, width = first_rotated(attention.layer), attention.q.shape[-1]
    if attention.q_plain is None:  # latent attention turns a part of the projected query
        start = head * width
        plain = trace[f"{selection.layer_name}.attention.query"][token][start : start + width]
    else:
        plain = attention.q_plain[0, head, token]
    return plain[first:], after[0, head, token][first:]


def _show_rotation(
    trace: Trace, selection: Selection, notes: list[str], facts: RotaryFacts
) -> Content:
    scheme = trace.stack_pass(selection.side).positions(selection.layer)
    cos, sin = (scheme.get_buffer(name)[selection.token] for name in (facts.cos, facts.sin))
    length = trace.stack_pass(selection.side).ids.shape[1]
    if facts.switch is not None:
        cos, sin = (table[selection.token] for table in cast("Rotary", scheme).tables(length))
        longer = "more than" if length > facts.switch else "at most"
        notes.append(f"the angles are for a text of {longer} {facts.switch:,} tokens")
    half = facts.n_rotated // 2
    plain, rotated = _before_and_after(trace, selection)
    rows: list[tuple[str | float | int, ...]] = []
    for pair in range(min(half, _PAIRS)):
        i, j = (pair, pair + half) if facts.pairing == "half_split" else (2 * pair, 2 * pair + 1)
        angle = math.degrees(math.atan2(float(sin[i]), float(cos[i])))
        pairs = (float(plain[i]), float(plain[j]), angle, float(rotated[i]), float(rotated[j]))
        rows.append((f"{i}, {j}", *pairs))
    cut = f": the first {_PAIRS} of {half}" if half > _PAIRS else ""
    width = selection.attention(trace).q.shape[-1]
    part = f"{facts.n_rotated} of the {width} features of " if facts.n_rotated < width else ""
    return Content(
        sentence=f"Nothing is added: {part}queries and keys are rotated, pair by pair, by an angle "
        f"that grows with the place (here {selection.token}), so that their product depends on "
        "the distance.",
        pictures=(
            Table(
                title=f"pairs of the query of {selection.head_name}{cut}",
                columns=("pair", "x", "y", "degrees", "x rotated", "y rotated"),
                rows=tuple(rows),
            ),
        ),
        receipts=[rotation_receipt(trace, selection, vector) for vector in ("q", "k")],
        notes=notes,
    )


def _show_bias(trace: Trace, selection: Selection, notes: list[str], rule: str) -> Content:
    attention = selection.attention(trace)
    if attention.scoring is None:
        return Content(
            sentence="Positions act on scores here, and linear attention has none.", notes=notes
        )
    bias = attention_heads.bias(attention, selection.head)
    assert bias is not None
    line = to_list(bias[selection.token].float())
    sentence = f"Positions change no vector: the score of a query and a key gets {rule}."
    if attention.positions.adds_values:
        sentence += " To each value is added a learnt vector for its distance, too."
    return Content(
        sentence=sentence,
        pictures=(
            Lines(
                title=f"bias of the scores of {selection.query(trace)} in {selection.head_name}",
                names=("bias",),
                x=tuple(float(key - selection.token) for key in range(len(line))),
                series=(tuple(line),),
                x_unit="key's place minus query's",
            ),
        ),
        receipts=(score_receipt(trace, selection),),
        notes=notes,
    )
