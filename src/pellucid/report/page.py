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
from pellucid.report.sections import example, facts_table, figure, happenings, samples
from pellucid.report.story import Story
from pellucid.report.style import CSS
from pellucid.training import events
from pellucid.version import __version__

Facts = Sequence[tuple[str, str]]


def page(story: Story, *, config_text: str, papers: Sequence[tuple[str, Facts]]) -> str:
    """The whole page.

    Args:
        config_text: The config of the run's folder, as TOML.
        papers: names of files and what they say, as tables of the environment.
    """
    name = escape(visible(story.name))
    environment = "".join(facts_table(title, facts) for title, facts in papers)
    body = f"""
<header>
<h1>{name}</h1>
<p class="soft">{escape(_in_a_sentence(story))}</p>
<nav aria-label="sections"><ul>
<li><a href="#curves">Curves</a></li><li><a href="#samples">Samples</a></li>
<li><a href="#events">Events</a></li><li><a href="#environment">Environment</a></li>
<li><a href="#config">Configuration</a></li>
</ul></nav>
<dl class="tiles">{_tiles(story)}</dl>
</header>
<main>
<section id="curves" aria-labelledby="curves-head"><h2 id="curves-head">Curves</h2>
<div class="charts">{"".join(figure(chart, svg(chart)) for chart in charts(story))}</div></section>
{example(story.examples)}
<section id="samples" aria-labelledby="samples-head">
<h2 id="samples-head">How it learnt to speak</h2>{samples(story.samples)}</section>
<section id="events" aria-labelledby="events-head"><h2 id="events-head">Events</h2>
{happenings(story.happenings)}</section>
<section id="environment" aria-labelledby="environment-head">
<h2 id="environment-head">Environment</h2>
{facts_table("The facts before the first step", story.facts)}{environment}</section>
<section id="config" aria-labelledby="config-head"><h2 id="config-head">Configuration</h2>
<p>The whole of it: <code>pellucid train --config</code> with this as a file repeats the run.</p>
<div class="scroll" tabindex="0" role="region" aria-label="the configuration as TOML">
<pre>{escape(config_text)}</pre></div></section>
</main>
<footer>Made by pellucid {__version__} from the run's folder. This file is whole: it fetches nothing
and runs no script.</footer>
"""
    return document(f"{visible(story.name)}: a run of pellucid", body)


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
    total = "" if story.total_steps is None else f" of {story.total_steps:,}"
    return f"{story.step:,}{total} steps; {story.ended}."


def _tiles(story: Story) -> str:
    best, last = story.best, story.last
    held_out, unit_name = story.held_out.points, f"nats per {singular(story.unit)}"
    tiles = [("steps", f"{story.step:,}", f"of {story.total_steps:,}" if story.total_steps else "")]
    if best is not None:
        tiles += [
            *_best_measure(best),
            ("its loss", f"{best.loss_nats:.4f}", unit_name),
        ]
    if held_out and best is not None and held_out[-1][0] != best.step:
        tiles.append(("last held-out", f"{held_out[-1][1]:.4f}", unit_name))
    if last is not None:
        tiles += [
            ("training loss", f"{last.loss:.4f}", f"{unit_name}, {len(last.losses)} updates"),
            ("read", short(last.tokens), last.unit),
            ("speed", short(last.tokens_per_second), f"{last.unit} per second, at the end"),
        ]
        if story.ended.startswith("not over"):
            tiles.append(("left", duration(last.seconds_left), "at this speed"))
    return "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(unit)}</small></dd></div>"
        for name, value, unit in tiles
    )


def _best_measure(best: events.Evaluated) -> list[tuple[str, str, str]]:
    """The measure that says most of the best checkpoint, where anything was measured."""
    measured = news(best.measures)
    if not measured:
        return [("best held-out", f"step {best.step:,}", "")]
    measure, value = measured[0]
    return [("best held-out", measure.number(value), f"{measure.title}, at step {best.step:,}")]


def _policy() -> str:
    digest = base64.b64encode(hashlib.sha256(CSS.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
