"""Why this word: the difference of two logits, taken apart, measured, and followed back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import torch

from pellucid.catalogue import join, message, messages
from pellucid.errors import PellucidError
from pellucid.explain.chapter_types import Bars, Content, Matrix, Receipt, Table
from pellucid.explain.receipts.builder import ReceiptBuilder, row
from pellucid.explain.selection import Selection, label
from pellucid.explain.trace_types import Trace
from pellucid.explain.why.answer import find_why
from pellucid.explain.why.attribution import Attribution
from pellucid.explain.why.measure import FACTOR, N_MEASURED, measure
from pellucid.explain.why.tree import grow_tree, list_branches
from pellucid.explain.why.types import METHODS, Measurement, Part

#: Bars, rows and columns of the map, rows of units, lines of the tree.
_BARS, _HEADS, _TOKENS, _ROWS, _LINES = 8, 5, 48, 3, 8
#: How a measured change that differs from the attributed one is marked.
_MARKS = {"agrees": "", "small": "", "sign": "!", "factor": "*"}
#: Multiplications of a measurement that a chapter makes unasked.
_MOST_WORK = 2e10


def build(trace: Trace, selection: Selection) -> Content:
    """The likeliest word after the selected token, and its runner-up."""
    model = trace.model
    if not model.has_head and model.classifier is None:
        return Content(sentence=message("why.this-model-has-no-head"))
    if selection.side != trace.side:
        raise PellucidError(message("why.this-stack-predicts-no-word"))
    attribution = find_why(trace, token=selection.token)
    n_weights = sum(parameter.numel() for parameter in model.parameters())
    rows = 1 + N_MEASURED * len(METHODS)
    cheap = n_weights * len(trace.ids) * rows <= _MOST_WORK
    note = None
    if not cheap:
        note = message("why.the-parts-are-not-taken", rows=rows)
    return describe(trace, attribution, measure(trace, attribution) if cheap else None, note)


def describe(
    trace: Trace, attribution: Attribution, measurement: Measurement | None, note: str | None = None
) -> Content:
    """An answer as a chapter.

    Args:
        attribution: the parts.
        measurement: what happens without the largest; None if it was not measured.
        note: a further note.
    """
    notes = [
        message("why.held", scales=join(", ", attribution.held_scales))
        if attribution.held_scales
        else None,
        message("why.a-share-is-what-a"),
        note,
    ]
    if attribution.rivals.difference != attribution.rivals.after_cap:
        notes.append(
            message(
                "why.the-cap-brings-the-difference",
                difference=attribution.rivals.difference,
                after_cap=attribution.rivals.after_cap,
            )
        )
    if any(abs(part.no_source) > attribution.tolerance for part in attribution.parts):
        notes.append(message("why.some-heads-write-more-than"))
    return Content(
        sentence=_describe_difference(trace, attribution) + _describe_measurement(measurement),
        pictures=(
            _bars(attribution),
            _layer_bars(attribution),
            None if measurement is None else _measured(measurement),
            _source_map(trace, attribution),
            _units(attribution),
            _tree(trace, attribution),
        ),
        receipts=(_sum_receipt(trace, attribution),),
        notes=[*notes, *_measurement_notes(measurement)],
    )


def _sum_receipt(trace: Trace, attribution: Attribution) -> Receipt:
    """All parts together, and the difference that the model has."""
    parts = row(
        torch.tensor([part.share for part in attribution.parts], dtype=torch.float64), "parts"
    )
    token = attribution.rivals.token
    return ReceiptBuilder(trace).receipt(
        "class_logits" if token is None else f"logits[{token}]",
        title=message("why.all-parts-together-and-the", n_parts=len(attribution.parts)),
        formula="Σ parts",
        expression=parts.sum(),
        source=(find_why, "parts=("),
        model=attribution.rivals.difference,
    )


def _describe_difference(trace: Trace, attribution: Attribution) -> str:
    rivals = attribution.rivals
    word, other = map(repr, rivals.names)
    values = {
        "word": word,
        "p": rivals.probabilities[0],
        "other": other,
        "other_p": rivals.probabilities[1],
        "apart": rivals.difference,
    }
    helping = [part for part in attribution.largest if part.share * rivals.difference > 0][:3]
    opposing = [part for part in attribution.largest if part.share * rivals.difference < 0][:2]
    if rivals.token is None:
        text = message("why.class", **values)
    else:
        token = label(trace.pieces(trace.side), rivals.token)
        place = "at" if trace.model.decoder is None else "after"
        text = message(f"why.{place}", token=token, **values)
    text += message("why.comes-from", parts=_list_parts(helping))
    if opposing:
        return text + message("why.against", parts=_list_parts(opposing))
    return text


def _list_parts(parts: Sequence[Part]) -> str:
    return join(", ", [message("why.part", part=part.name, share=part.share) for part in parts])


def _describe_measurement(measurement: Measurement | None) -> str:
    if measurement is None or not measurement.parts:
        return ""
    n_parts = len(measurement.parts)
    turned_parts = [part.name for part in measurement.parts if part.verdict("zero") == "sign"]
    resized = [part.name for part in measurement.parts if part.verdict("zero") == "factor"]
    if not turned_parts and not resized:
        return message("why.all-act-as-shares", n=n_parts)
    text: str = message("why.shares-do-not-say-all", n=n_parts)
    if turned_parts:
        text += message("why.other-way", parts=join(", ", turned_parts))
    if resized:
        text += message("why.other-size", parts=join(", ", resized), factor=FACTOR)
    return text


def _measurement_notes(measurement: Measurement | None) -> Iterator[str]:
    if measurement is None:
        return
    yield (
        message(
            "why.replaced-at-every-token-the",
            resampled_from=measurement.resampled_from,
            patched_from=measurement.patched_from,
            contrast_difference=measurement.contrast_difference,
        )
    )
    yield (
        message(
            "why.marks-the-measured-change-has",
            sign=_MARKS["sign"],
            factor=_MARKS["factor"],
            factor2=FACTOR,
        )
    )


def _bars(attribution: Attribution) -> Bars:
    shown_parts = attribution.largest[:_BARS]
    hidden, names = attribution.largest[_BARS:], attribution.rivals.names
    return Bars(
        title=message("why.what-each-part-adds-to", names=repr(names[0]), names2=repr(names[1])),
        names=tuple(part.name for part in shown_parts),
        values=tuple(part.share for part in shown_parts),
        unit=message("word.logit"),
        rest=sum(part.share for part in hidden) if hidden else None,
    )


def _layer_bars(attribution: Attribution) -> Bars:
    return Bars(
        title=message("why.the-same-by-layer"),
        names=tuple(layer.name for layer in attribution.layers),
        values=tuple(layer.share for layer in attribution.layers),
        unit=message("word.logit"),
    )


def _measured(measurement: Measurement) -> Table:
    """A row for each part: its share, and for each method the attributed and measured change."""
    rows = tuple(
        (
            part.name,
            f"{part.share:+.3f}",
            *(
                f"{effect.attributed:+.2f} {effect.measured:+.2f}{_MARKS[effect.verdict]}"
                for effect in part.effects
            ),
        )
        for part in measurement.parts
    )
    return Table(
        title=message("why.really-replaced-the-change-that"),
        columns=(
            message("word.part"),
            message("word.share"),
            *(message(f"why.{method}") for method in METHODS),
        ),
        rows=rows,
    )


def _source_map(trace: Trace, attribution: Attribution) -> Matrix | None:
    """The heads with the largest readings, by token."""
    own_readings = [reading for reading in attribution.readings if not reading.place.cross]
    readings = sorted(own_readings, key=lambda reading: -float(reading.by_key.abs().max()))[:_HEADS]
    if not readings:
        return None
    pieces = trace.pieces(trace.side)
    first = max(0, len(pieces) - _TOKENS)
    return Matrix(
        title=message("why.what-heads-took-from-each"),
        rows=tuple(reading.name for reading in readings),
        columns=pieces[first:],
        values=tuple(tuple(map(float, reading.by_key[first:])) for reading in readings),
        scale="diverging",
        address="",
        pooled=message("why.cut-out-the-last-of", tokens=_TOKENS, n_pieces=len(pieces))
        if first
        else "",
    )


def _units(attribution: Attribution) -> Table | None:
    if not attribution.units:
        return None
    return Table(
        title=message("why.the-units-of-feed-forwards"),
        columns=messages("word.unit", "word.value", "word.share"),
        rows=tuple(
            (unit.name, f"{unit.value:+.4f}", f"{unit.share:+.4f}")
            for unit in attribution.units[:_ROWS]
        ),
    )


def _tree(trace: Trace, attribution: Attribution) -> Table:
    return Table(
        title=message("why.whose-information-came-by-which"),
        columns=messages("word.way", "word.weight", "word.share"),
        rows=tuple(
            (
                message("why.branch", indent="· " * depth, text=text),
                "" if branch.weight is None else f"{branch.weight:.2f}",
                f"{branch.share:+.3f}",
            )
            for depth, text, branch in islice(
                list_branches(trace, grow_tree(trace, attribution)), _LINES
            )
        ),
    )
