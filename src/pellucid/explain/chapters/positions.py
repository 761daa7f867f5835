"""Positions: how a model knows the order of the tokens; each scheme where it acts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, assert_never, cast

from torch import Tensor

from pellucid.catalogue import message
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
    PositionPart,
    RotaryFacts,
    UnknownFacts,
    position_facts,
)
from pellucid.typed import to_list

_PAIRS = 8
_NO_POSITIONS = {
    "decoder": message("positions.nothing-marks-the-position-of-2"),
    "encoder": message("positions.nothing-marks-the-position-of"),
}


def build(trace: Trace, selection: Selection) -> Content:
    """The effect of the stack's scheme at the selected place."""
    notes: list[str] = []
    if selection.side == "decoder" and len(trace.sides) == 2:
        notes.append(message("positions.attention-to-the-encoder-knows"))
    if selection.cross:  # positions act within one text
        names = ("token", "layer", "head", "feature")
        place = Place(**{name: getattr(selection, name) for name in names})
        selection = select_place(trace, place)
    stack_pass = trace.stack_pass(selection.side)
    if isinstance(stack_pass.stack.positions, AlternatingPositions):
        notes.append(message("positions.schemes-take-turns-in-this", layer=selection.layer + 1))
    facts = position_facts(stack_pass.positions(selection.layer))
    own = _show_scheme(trace, selection, notes, facts)
    if stack_pass.stack.embedding_positions is None:
        return own
    added = position_facts(stack_pass.stack.embedding_positions)
    first = _show_scheme(trace, selection, [*own.notes, _name_own_scheme(facts)], added)
    pictures, receipts = (*first.pictures, *own.pictures), (*first.receipts, *own.receipts)
    return replace(first, pictures=pictures, receipts=receipts)


def _show_scheme(
    trace: Trace, selection: Selection, notes: Sequence[str | None], facts: PositionPart
) -> Content:
    match facts:
        case AddedPositionFacts(learned=learned):
            return _show_added(trace, selection, notes, learned=learned)
        case RotaryFacts():
            return _show_rotation(trace, selection, notes, facts)
        case DistanceBiasFacts() | DistanceVectorFacts() | DisentangledFacts():
            return _show_bias(trace, selection, notes, _describe_rule(facts))
        case NoPositionFacts():
            return Content(sentence=_NO_POSITIONS[selection.side], notes=notes)
        case UnknownFacts(part=part):
            return Content(
                sentence=message("positions.does-not-say-how-it", part=part), notes=notes
            )
        case _:
            assert_never(facts)


def _name_own_scheme(facts: PositionPart) -> str | None:
    """What the layers do with positions, where the embedding has them already."""
    match facts:
        case RotaryFacts():
            return message("positions.the-layers-rotate-too")
        case DistanceBiasFacts() | DistanceVectorFacts() | DisentangledFacts():
            return message("positions.the-scores-get-too", rule=_describe_rule(facts))
        case AddedPositionFacts() | NoPositionFacts():
            return None
        case UnknownFacts(part=part):
            return message("positions.does-not-say-how-it", part=part)
        case _:
            assert_never(facts)


def _describe_rule(facts: DistanceBiasFacts | DistanceVectorFacts | DisentangledFacts) -> str:
    match facts:
        case DistanceBiasFacts(rule=rule):
            return _describe_bias(rule)
        case DistanceVectorFacts():
            return message("positions.the-query-product-with-a")
        case DisentangledFacts():
            return message("positions.the-products-of-the-query")
        case _:
            assert_never(facts)


def _describe_bias(rule: Literal["slope", "bucket"]) -> str:
    match rule:
        case "slope":
            return message("positions.a-penalty-that-grows-with")
        case "bucket":
            return message("positions.a-learnt-number-for-each")
        case _:
            assert_never(rule)


def _show_added(
    trace: Trace, selection: Selection, notes: Sequence[str | None], *, learned: bool
) -> Content:
    added = trace[cell(f"{stack_prefix(trace, selection.side)}positions", selection.token)]
    origin = (
        message("positions.it-was-learnt-one-for")
        if learned
        else message("positions.sines-and-cosines-not-learnt")
    )
    return Content(
        sentence=message("positions.a-vector-for-place-is", token=selection.token, origin=origin),
        pictures=(
            feature_bars(message("positions.the-vector-of-place", token=selection.token), added),
        ),
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
    trace: Trace, selection: Selection, notes: Sequence[str | None], facts: RotaryFacts
) -> Content:
    scheme = trace.stack_pass(selection.side).positions(selection.layer)
    cos, sin = (scheme.get_buffer(name)[selection.token] for name in (facts.cos, facts.sin))
    length = trace.stack_pass(selection.side).ids.shape[1]
    if facts.switch is not None:
        cos, sin = (table[selection.token] for table in cast("Rotary", scheme).tables(length))
        longer = message("word.more-than") if length > facts.switch else message("word.at-most")
        switch = message("positions.the-angles-are-for-a", longer=longer, switch=facts.switch)
        notes = [*notes, switch]
    half = facts.n_rotated // 2
    plain, rotated = _before_and_after(trace, selection)
    rows: list[tuple[str | float | int, ...]] = []
    for pair in range(min(half, _PAIRS)):
        i, j = (pair, pair + half) if facts.pairing == "half_split" else (2 * pair, 2 * pair + 1)
        angle = math.degrees(math.atan2(float(sin[i]), float(cos[i])))
        pairs = (float(plain[i]), float(plain[j]), angle, float(rotated[i]), float(rotated[j]))
        rows.append((f"{i}, {j}", *pairs))
    cut = message("positions.the-first-of", pairs=_PAIRS, half=half) if half > _PAIRS else ""
    width = selection.attention(trace).q.shape[-1]
    part = (
        message("positions.of-the-features-of", n_rotated=facts.n_rotated, width=width)
        if facts.n_rotated < width
        else ""
    )
    return Content(
        sentence=message(
            "positions.nothing-is-added-queries-and", part=part, token=selection.token
        ),
        pictures=(
            Table(
                title=message(
                    "positions.pairs-of-the-query-of", head_name=selection.head_name, cut=cut
                ),
                columns=(
                    message("word.pair"),
                    "x",
                    "y",
                    message("word.degrees"),
                    message("word.x-rotated"),
                    message("word.y-rotated"),
                ),
                rows=tuple(rows),
            ),
        ),
        receipts=[rotation_receipt(trace, selection, vector) for vector in ("q", "k")],
        notes=notes,
    )


def _show_bias(
    trace: Trace, selection: Selection, notes: Sequence[str | None], rule: str
) -> Content:
    attention = selection.attention(trace)
    if attention.scoring is None:
        return Content(sentence=message("positions.positions-act-on-scores-here"), notes=notes)
    bias = attention_heads.bias(attention, selection.head)
    assert bias is not None
    line = to_list(bias[selection.token].float())
    sentence = message("positions.positions-change-no-vector-the", rule=rule)
    if attention.positions.adds_values:
        sentence += message("positions.to-each-value-is-added")
    return Content(
        sentence=sentence,
        pictures=(
            Lines(
                title=message(
                    "positions.bias-of-the-scores-of",
                    query=selection.query(trace),
                    head_name=selection.head_name,
                ),
                names=(message("word.bias"),),
                x=tuple(float(key - selection.token) for key in range(len(line))),
                series=(tuple(line),),
                x_unit=message("positions.key-place-minus-query"),
            ),
        ),
        receipts=(score_receipt(trace, selection),),
        notes=notes,
    )
