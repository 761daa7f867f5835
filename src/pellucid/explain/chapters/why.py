"""Why this word: the difference of two logits, taken apart, measured, and followed back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import torch

from pellucid.errors import PellucidError
from pellucid.explain.chapter_types import Bars, Content, Matrix, Receipt, Table
from pellucid.explain.receipts.builder import ReceiptBuilder, row
from pellucid.explain.selection import Selection
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
        return Content(sentence="This model has no head: it says no word, and no class.")
    if selection.side != trace.side:
        raise PellucidError("this stack predicts no word: look at the other with --stack decoder")
    attribution = find_why(trace, token=selection.token)
    n_weights = sum(parameter.numel() for parameter in model.parameters())
    rows = 1 + N_MEASURED * len(METHODS)
    cheap = n_weights * len(trace.ids) * rows <= _MOST_WORK
    note = None
    if not cheap:
        note = (
            f"the parts are not taken away here: that reads the sentence {rows} times. Measure it "
            "with pellucid explain RUN SENTENCE --why"
        )
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
        f"held at their values: {', '.join(attribution.held_scales)}"
        if attribution.held_scales
        else None,
        "a share is what a part adds directly: what it changes in later parts counts as theirs",
        note,
    ]
    if attribution.rivals.difference != attribution.rivals.after_cap:
        notes.append(
            f"the cap brings the difference from {attribution.rivals.difference:+.4f} to "
            f"{attribution.rivals.after_cap:+.4f}; shares are of the first"
        )
    if any(abs(part.no_source) > attribution.tolerance for part in attribution.parts):
        notes.append(
            "some heads write more than a sum of values (a memory, vectors of distances): the map "
            "of tokens lacks that"
        )
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
        title=f"all {len(attribution.parts)} parts together, and the difference of both logits",
        formula="Σ parts",
        expression=parts.sum(),
        source=(find_why, "parts=("),
        model=attribution.rivals.difference,
    )


def _describe_difference(trace: Trace, attribution: Attribution) -> str:
    rivals = attribution.rivals
    word, other = map(repr, rivals.names)
    if rivals.token is None:
        begin = f"The text is {word} (p {rivals.probabilities[0]:.3g}) rather than {other} (p "
    else:
        piece = trace.pieces(trace.side)[rivals.token]
        begin = (
            f"After {piece!r} ({rivals.token}) the model gives {word} p "
            f"{rivals.probabilities[0]:.3g} and {other} p "
        )
        if trace.model.decoder is None:
            begin = begin.replace("After", "At", 1)
    end = ")" if rivals.token is None else ""
    helping = [part for part in attribution.largest if part.share * rivals.difference > 0][:3]
    opposing = [part for part in attribution.largest if part.share * rivals.difference < 0][:2]
    text = (
        f"{begin}{rivals.probabilities[1]:.3g}{end}: their logits are {rivals.difference:+.3f} "
        f"apart. Most of that comes from {_list_parts(helping)}"
    )
    return text + (f"; {_list_parts(opposing)} work against it." if opposing else ".")


def _list_parts(parts: Sequence[Part]) -> str:
    return ", ".join(f"{part.name} ({part.share:+.3f})" for part in parts)


def _describe_measurement(measurement: Measurement | None) -> str:
    if measurement is None or not measurement.parts:
        return ""
    n_parts = len(measurement.parts)
    text = f" Each of the {n_parts} largest was really taken away"
    turned_parts = [part.name for part in measurement.parts if part.verdict("zero") == "sign"]
    resized = [part.name for part in measurement.parts if part.verdict("zero") == "factor"]
    if not turned_parts and not resized:
        return f"{text}: all act as their share says."
    kinds = (
        (turned_parts, "the difference moves the other way"),
        (resized, f"it moves by another size, more than {FACTOR:g} times off"),
    )
    texts = [f"without {', '.join(names)} {effect}" for names, effect in kinds if names]
    return f"{text}, and the shares do not say it all: {'; '.join(texts)}."


def _measurement_notes(measurement: Measurement | None) -> Iterator[str]:
    if measurement is None:
        return
    yield (
        "replaced at every token, the embedding and positions where they are read, by nothing, by "
        f"the mean over the sentence, from {measurement.resampled_from}, and from "
        f"{measurement.patched_from} (the difference there: "
        f"{measurement.contrast_difference:+.3f})"
    )
    yield (
        f"marks: {_MARKS['sign']} the measured change has the other sign; {_MARKS['factor']} it is "
        f"more than {FACTOR:g} times larger or smaller than the attributed one"
    )


def _bars(attribution: Attribution) -> Bars:
    shown_parts = attribution.largest[:_BARS]
    hidden, names = attribution.largest[_BARS:], attribution.rivals.names
    return Bars(
        title=f"what each part adds to z[{names[0]!r}] - z[{names[1]!r}]",
        names=tuple(part.name for part in shown_parts),
        values=tuple(part.share for part in shown_parts),
        unit="logit",
        rest=sum(part.share for part in hidden) if hidden else None,
    )


def _layer_bars(attribution: Attribution) -> Bars:
    return Bars(
        title="the same by layer",
        names=tuple(layer.name for layer in attribution.layers),
        values=tuple(layer.share for layer in attribution.layers),
        unit="logit",
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
        title="really replaced: the change that the share predicts, and the measured one",
        columns=("part", "share", *METHODS),
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
        title="what heads took from each token: weight times value, as logit",
        rows=tuple(reading.name for reading in readings),
        columns=pieces[first:],
        values=tuple(tuple(map(float, reading.by_key[first:])) for reading in readings),
        scale="diverging",
        address="",
        pooled=f"cut out: the last {_TOKENS} of {len(pieces)} tokens" if first else "",
    )


def _units(attribution: Attribution) -> Table | None:
    if not attribution.units:
        return None
    return Table(
        title="the units of feed-forwards that add most",
        columns=("unit", "value", "share"),
        rows=tuple(
            (unit.name, f"{unit.value:+.4f}", f"{unit.share:+.4f}")
            for unit in attribution.units[:_ROWS]
        ),
    )


def _tree(trace: Trace, attribution: Attribution) -> Table:
    return Table(
        title="whose information came by which heads; the lines below a line add up to it",
        columns=("way", "weight", "share"),
        rows=tuple(
            (
                "· " * depth + text,
                "" if branch.weight is None else f"{branch.weight:.2f}",
                f"{branch.share:+.3f}",
            )
            for depth, text, branch in islice(
                list_branches(trace, grow_tree(trace, attribution)), _LINES
            )
        ),
    )
