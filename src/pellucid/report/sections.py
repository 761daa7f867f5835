"""The parts of the page: a chart with its numbers behind it, samples, events, tables of facts."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TypeVar

from pellucid.display import visible
from pellucid.display.example import example_lines
from pellucid.report.chart import Chart, colour, describe
from pellucid.report.messages import message
from pellucid.report.story import Series
from pellucid.training import events

#: Most rows of a table of numbers, and most samples; a note says if there are more.
MOST_ROWS, MOST_SAMPLES = 60, 20

_Item = TypeVar("_Item")


def figure(chart: Chart, drawing: str) -> str:
    """A chart with its caption, its key, and a table of its numbers."""
    key = [
        f'<li class="key-{colour(number)}">{escape(_curve_name(curve))}</li>'
        for number, curve in enumerate(chart.curves, start=1)
    ]
    key += [f'<li class="key-across">{escape(line.name)}</li>' for line in chart.lines]
    key += [f'<li class="key-resumed">{message("resumed")}</li>'] if chart.resumed_at else []
    tables = "".join(_numbers(curve) for curve in chart.curves)
    return (
        f"<figure><figcaption><h3>{escape(chart.title)}</h3><p>{escape(chart.caption)}</p>"
        f"</figcaption>{drawing}"
        f'<ul class="key">{"".join(key)}</ul>'
        f"<details><summary>{escape(message('numbers', title=chart.title))}</summary>"
        f"<p>{escape(describe(chart))}</p>{tables}</details></figure>"
    )


def _curve_name(curve: Series) -> str:
    name = curve.name
    if curve.updates > 1:
        name += f" {message('means', n=curve.updates)}"
    if curve.n_hidden:
        name += f"; {message('hidden', n=curve.n_hidden)}"
    return name


def _numbers(curve: Series) -> str:
    points = _evenly(curve.points, MOST_ROWS)
    note = ""
    if len(points) < len(curve.points):
        note = f", {message('rows', n=len(points), total=len(curve.points))}"
    unit = f", {curve.unit}" if curve.unit else ""
    rows = "".join(
        f'<tr><th scope="row" class="number">{step:,}</th><td class="number">{value:.6g}</td></tr>'
        for step, value in points
    )
    return table(
        f"{_curve_name(curve)}{unit}{note}",
        column(message("axis"), "number") + column(curve.unit or message("value"), "number"),
        rows,
    )


def example(examples: Sequence[events.Example]) -> str:
    """The first recorded training example, if there is one."""
    tables = "".join(
        '<div class="scroll" tabindex="0" role="region" aria-label="'
        f'{message("example-label")}">'
        f"<pre>{escape(_lines(event))}</pre></div>"
        for event in examples[:1]
    )
    if not tables:
        return ""
    return (
        '<section id="example" aria-labelledby="example-head">'
        f'<h2 id="example-head">{message("example")}</h2>{tables}</section>'
    )


def _lines(event: events.Example) -> str:
    """The same table as on a terminal."""
    return "\n".join(visible(line) for line in example_lines(event))


def samples(sampled: Sequence[events.Sampled]) -> str:
    """The fixed sentence over time: its continuation, and the likeliest tokens."""
    if not sampled:
        return f"<p>{message('no-sample')}</p>"
    shown_events = _evenly(sampled, MOST_SAMPLES)
    note = ""
    if len(shown_events) < len(sampled):
        note = f" {message('shown', n=len(shown_events), total=len(sampled))}"
    items = "".join(
        f'<li><span class="step">{message("step", step=event.step)}</span><div>'
        f'<p class="said" dir="auto"><b>{_text(event.sentence)}</b>'
        f"<span>{_text(event.continuation)}</span></p>"
        f'<p class="next">{message("next", tokens=_likely(event))}</p></div></li>'
        for event in shown_events
    )
    return f'<p>{message("samples-hint")}{note}</p><ol class="samples">{items}</ol>'


def _likely(event: events.Sampled) -> str:
    parts = (f"<bdi>{escape(repr(token))}</bdi> {p:.2f}" for token, p in event.next_tokens)
    return " · ".join(parts)


def _text(text: str) -> str:
    """Text to read: line breaks stay, other control characters become visible."""
    return escape("\n".join(visible(line) for line in text.split("\n")))


def happenings(happened: Sequence[tuple[int, str]]) -> str:
    """Starts, saves, stops and resumes, in order."""
    if not happened:
        return f"<p>{message('no-event')}</p>"
    rows = "".join(
        f'<tr><th scope="row" class="number">{step:,}</th><td>{escape(visible(text))}</td></tr>'
        for step, text in happened
    )
    return table(
        message("in-order"),
        column(message("axis"), "number") + column(message("event")),
        rows,
        kind="events",
    )


def facts_table(title: str, facts: Sequence[tuple[str, str]]) -> str:
    """Names and values."""
    if not facts:
        return ""
    rows = "".join(
        f'<tr><th scope="row">{escape(visible(name))}</th><td>{escape(visible(value))}</td></tr>'
        for name, value in facts
    )
    return (
        f"<details open><summary>{escape(title)}</summary>"
        f'<table class="facts" aria-label="{escape(title)}"><tbody>{rows}</tbody></table></details>'
    )


def column(name: str, kind: str = "") -> str:
    """The head of a column; a column of kind "number" is aligned right."""
    kind = f' class="{kind}"' if kind else ""
    return f'<th scope="col"{kind}>{escape(name)}</th>'


def table(caption: str, head: str, rows: str, *, kind: str = "numbers") -> str:
    """A table that scrolls if it is larger than the page.

    Args:
        caption: What it shows.
        head: Its columns, from `column`.
        rows: Its rows, as HTML.
        kind: Its class in the style.
    """
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f'<table class="{kind}">'
        f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{rows}</tbody></table></div>"
    )


def _evenly(items: Sequence[_Item], limit: int) -> Sequence[_Item]:
    """At most `limit` items, evenly spaced, with the first and the last."""
    if len(items) <= limit:
        return items
    return [items[round(i * (len(items) - 1) / (limit - 1))] for i in range(limit)]
