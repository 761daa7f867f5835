"""The vital signs of a whole run as one HTML file: five sections, a chart for each sign."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

from pellucid.display import visible
from pellucid.report.chart import Chart, ReferenceLine, svg
from pellucid.report.messages import message
from pellucid.report.page import document
from pellucid.report.sections import figure, happenings
from pellucid.report.story import Series
from pellucid.training import Vitals


class SignText(NamedTuple):
    """The texts of a sign, and its thresholds.

    Attributes:
        equation: The number of its equation.
        rule: Its meaning and thresholds, as a sentence.
        source: The source of the thresholds.
        limits: Each threshold with its word.
    """

    equation: int
    rule: str
    source: str
    limits: tuple[tuple[str, float], ...]


def vitals_page(name: str, events: Sequence[Vitals], signs: Mapping[str, SignText]) -> str:
    """The page of a run's vital signs.

    Args:
        name: The run's name.
        events: All of its readings.
        signs: The texts of each sign by id.
    """
    last, title = events[-1], message("vital-signs", run=visible(name))
    tiles = "".join(
        f"<div><dt>{escape(equation)}</dt><dd>{escape(word or message('not-measured'))}</dd></div>"
        for equation, word in last.rows
    )
    sections = "".join(
        _section(number, equation, word, events, signs)
        for number, (equation, word) in enumerate(last.rows, start=1)
    )
    body = f"""
<header>
<h1>{escape(title)}</h1>
<p class="soft">{message("readings", n=len(events), step=last.step)}</p>
<dl class="tiles">{tiles}</dl>
</header>
<main>{sections}
<section id="words" aria-labelledby="words-head"><h2 id="words-head">{message("not-calm")}</h2>
{happenings(changes(events))}</section>
</main>
"""
    return document(title, body)


def changes(events: Sequence[Vitals]) -> list[tuple[int, str]]:
    """The steps at which the word of a sign changed."""
    words: dict[str, str] = {}
    rows: list[tuple[int, str]] = []
    for event in events:
        for id, _, value, word, step, _ in event.signs:
            if word != words.get(id, "calm"):
                rows.append((step, message("word-at", sign=id, word=word, value=value)))
            words[id] = word
    return rows


def _section(
    number: int, name: str, word: str, events: Sequence[Vitals], specs: Mapping[str, SignText]
) -> str:
    figures = "".join(
        figure(chart, svg(chart))
        for id, spec in specs.items()
        if spec.equation == number and (chart := _chart(id, spec, events)) is not None
    )
    return (
        f'<section id="equation-{number}" aria-labelledby="equation-{number}-head">'
        f'<h2 id="equation-{number}-head">{number} {escape(name)}: '
        f"{escape(word or message('not-measured'))}</h2>"
        f'<div class="charts">{figures}</div></section>'
    )


def _chart(id: str, spec: SignText, events: Sequence[Vitals]) -> Chart | None:
    values_by_step = {
        step: value for e in events for sign, _, value, _, step, _ in e.signs if sign == id
    }
    points = tuple(
        (step, value) for step, value in sorted(values_by_step.items()) if math.isfinite(value)
    )
    if not values_by_step:
        return None
    low = min((value for _, value in points), default=0.0)
    high = max((value for _, value in points), default=0.0)
    # a threshold far from all values would flatten the curve
    lines = tuple(
        ReferenceLine(message("threshold", word=word, limit=limit), limit)
        for word, limit in spec.limits
        if low - (high - low) <= limit <= high + (high - low)
    )
    return Chart(
        key=id.replace(".", "-"),
        title=id,
        caption=message("rule", rule=spec.rule, source=spec.source),
        curves=(
            Series(name=id, unit="", points=points, n_hidden=len(values_by_step) - len(points)),
        ),
        lines=lines,
        resumed_at=(),
        last_step=events[-1].step,
    )
