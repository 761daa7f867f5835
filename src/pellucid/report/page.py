"""The page: a story and its papers as one HTML file that fetches nothing.

No script, nothing fetched; a policy in the page forbids both.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from html import escape

from pellucid.display import visible
from pellucid.display.metric_labels import news, singular
from pellucid.display.numbers import duration, short
from pellucid.report.chart import svg
from pellucid.report.charts import charts
from pellucid.report.messages import message
from pellucid.report.sections import example, facts_table, figure, happenings, samples
from pellucid.report.story import Story
from pellucid.report.style import CSS
from pellucid.training import events
from pellucid.version import __version__

Facts = Sequence[tuple[str, str]]


def page(story: Story, *, config_text: str, papers: Sequence[tuple[str, Facts]]) -> str:
    """The whole page.

    Args:
        story: The run.
        config_text: The config of the run's folder, as TOML.
        papers: Names of files with their facts, shown as tables of the environment.
    """
    name = escape(visible(story.name))
    environment = "".join(facts_table(title, facts) for title, facts in papers)
    body = f"""
<header>
<h1>{name}</h1>
<p class="soft">{escape(_in_a_sentence(story))}</p>
<nav aria-label="{message("sections")}"><ul>{_navigation()}</ul></nav>
<dl class="tiles">{_tiles(story)}</dl>
</header>
<main>
<section id="curves" aria-labelledby="curves-head">{_heading("curves")}
<div class="charts">{"".join(figure(chart, svg(chart)) for chart in charts(story))}</div></section>
{example(story.examples)}
<section id="samples" aria-labelledby="samples-head">
{_heading("samples", "learning")}{samples(story.samples)}</section>
<section id="events" aria-labelledby="events-head">{_heading("events")}
{happenings(story.happenings)}</section>
<section id="environment" aria-labelledby="environment-head">
{_heading("environment")}
{facts_table(message("facts"), story.facts)}{environment}</section>
<section id="config" aria-labelledby="config-head">{_heading("config")}
<p>{message("config-hint", command="<code>pellucid train --config</code>")}</p>
<div class="scroll" tabindex="0" role="region" aria-label="{message("config-label")}">
<pre>{escape(config_text)}</pre></div></section>
</main>
<footer>{message("footer", version=__version__)}</footer>
"""
    return document(message("title", run=visible(story.name)), body)


def _navigation() -> str:
    keys = ("curves", "samples", "events", "environment", "config")
    return "".join(f'<li><a href="#{key}">{message(key)}</a></li>' for key in keys)


def _heading(section: str, key: str = "") -> str:
    return f'<h2 id="{section}-head">{message(key or section)}</h2>'


def document(title: str, body: str) -> str:
    """A whole HTML file around a page's body: its style within, everything else forbidden."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_policy()}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{escape(title)}</title>
<style>{CSS}</style>
</head>
<body>{body}</body>
</html>
"""


def _in_a_sentence(story: Story) -> str:
    total = "" if story.total_steps is None else f" {message('of', total=story.total_steps)}"
    return message("summary", step=story.step, total=total, ended=story.ended)


def _tiles(story: Story) -> str:
    best, last = story.best, story.last
    held_out, unit_name = story.held_out.points, message("nats-per", unit=singular(story.unit))
    total = message("of", total=story.total_steps) if story.total_steps else ""
    tiles = [(message("steps"), f"{story.step:,}", total)]
    if best is not None:
        tiles += [
            *_best_measure(best),
            (message("its-loss"), f"{best.loss_nats:.4f}", unit_name),
        ]
    if held_out and best is not None and held_out[-1][0] != best.step:
        tiles.append((message("last-held-out"), f"{held_out[-1][1]:.4f}", unit_name))
    if last is not None:
        tiles += [
            (
                message("training-loss"),
                f"{last.loss:.4f}",
                message("over-updates", unit=unit_name, n=len(last.losses)),
            ),
            (message("read"), short(last.tokens), last.unit),
            (
                message("speed"),
                short(last.tokens_per_second),
                message("speed-at-end", unit=last.unit),
            ),
        ]
        if story.ended == message("not-over"):
            tiles.append((message("left"), duration(last.seconds_left), message("at-this-speed")))
    return "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(unit)}</small></dd></div>"
        for name, value, unit in tiles
    )


def _best_measure(best: events.Evaluated) -> list[tuple[str, str, str]]:
    """The most informative measure of the best checkpoint."""
    measured = news(best.measures)
    if not measured:
        return [(message("best-held-out"), message("step", step=best.step), "")]
    measure, value = measured[0]
    note = message("measure-at", title=measure.title, step=best.step)
    return [(message("best-held-out"), measure.number(value), note)]


def _policy() -> str:
    digest = base64.b64encode(hashlib.sha256(CSS.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
