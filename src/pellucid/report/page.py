"""The page: a story and its papers as one HTML file that asks nobody for anything.

Comes in: a `Story`, the config's text, tables of facts. Goes out: HTML. No script, nothing fetched;
a policy in the page forbids both. It does not know where the run lies.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from html import escape

from pellucid.display import visible
from pellucid.display.numbers import duration, short
from pellucid.report.chart import Across, Chart, svg
from pellucid.report.sections import facts_table, figure, happenings, samples
from pellucid.report.story import Story
from pellucid.report.style import CSS
from pellucid.version import __version__

Facts = Sequence[tuple[str, str]]


def page(story: Story, *, config_text: str, papers: Sequence[tuple[str, Facts]]) -> str:
    """The whole page.

    Args:
        config_text: the config as it stands in the run's folder, TOML.
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
<section id="samples" aria-labelledby="samples-head">
<h2 id="samples-head">How it learnt to speak</h2>{samples(story.samples)}</section>
<section id="events" aria-labelledby="events-head"><h2 id="events-head">Events</h2>
{happenings(story.happenings)}</section>
<section id="environment" aria-labelledby="environment-head">
<h2 id="environment-head">Environment</h2>
{facts_table("what was said before the first step", story.facts)}{environment}</section>
<section id="config" aria-labelledby="config-head"><h2 id="config-head">Configuration</h2>
<p>The whole of it: <code>pellucid train --config</code> with this as a file repeats the run.</p>
<div class="scroll" tabindex="0" role="region" aria-label="the configuration as TOML">
<pre>{escape(config_text)}</pre></div></section>
</main>
<footer>Made by pellucid {__version__} from the run's folder. This file is whole: it fetches nothing
and runs no script.</footer>
"""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_policy()}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{name}: a run of pellucid</title>
<style>{CSS}</style>
</head>
<body>{body}</body>
</html>
"""


def charts(story: Story) -> tuple[Chart, ...]:
    """The six charts of a run."""

    def chart(
        key: str,
        title: str,
        says: str,
        *curves: str,
        across: tuple[Across, ...] = (),
        from_zero: bool = False,
        logarithmic: bool = False,
    ) -> Chart:
        return Chart(
            key=key,
            title=title,
            says=says,
            curves=tuple(getattr(story, curve) for curve in curves),
            across=across,
            resumed_at=story.resumed_at,
            last_step=story.step,
            from_zero=from_zero,
            logarithmic=logarithmic,
        )

    guessing, clip = story.guessing_nats, story.clip_norm
    even = () if guessing is None else (Across("ln V: guessing evenly", guessing),)
    clipped = () if clip is None else (Across(f"clipped at {clip:g}", clip),)
    return (
        chart(
            "loss",
            "Loss, nats per token",
            "Lower is better. Where held-out text gets worse while training text gets better, the "
            "text is being learnt by heart.",
            "loss",
            "held_out",
            across=even,
            from_zero=True,
        ),
        chart(
            "bits",
            "Held-out bits per byte",
            "The same loss for each byte of text: comparable between tokenizers.",
            "bits_per_byte",
        ),
        chart(
            "gradient",
            "Gradient norm, before clipping",
            ("" if clip is None else "What is above the dashed line is scaled down to it. ")
            + "A logarithmic axis.",
            "grad_norms",
            across=clipped,
            logarithmic=True,
        ),
        chart("rate", "Learning rate", "How far one update goes.", "learning_rate", from_zero=True),
        chart("speed", "Speed, tokens per second", "Of training alone.", "speed", from_zero=True),
        chart(
            "logz",
            "log Z, nats",
            "The logarithm of what softmax divides by. A steady climb or fall is a drift of all "
            "logits, which the loss does not see.",
            "log_z",
        ),
    )


def _in_a_sentence(story: Story) -> str:
    total = "" if story.total_steps is None else f" of {story.total_steps:,}"
    return f"{story.step:,}{total} steps; {story.ended}."


def _tiles(story: Story) -> str:
    best, last = story.best, story.last
    held_out = story.held_out.points
    tiles = [("steps", f"{story.step:,}", f"of {story.total_steps:,}" if story.total_steps else "")]
    if best is not None:
        tiles += [
            ("best held-out", f"{best.bits_per_byte:.4f}", f"bits per byte, at step {best.step:,}"),
            ("its loss", f"{best.loss_nats:.4f}", "nats per token"),
        ]
    if held_out and best is not None and held_out[-1][0] != best.step:
        tiles.append(("last held-out", f"{held_out[-1][1]:.4f}", "nats per token"))
    if last is not None:
        tiles += [
            ("training loss", f"{last.loss:.4f}", f"nats per token, {len(last.losses)} updates"),
            ("read", short(last.tokens), "tokens"),
            ("speed", short(last.tokens_per_second), "tokens per second, at the end"),
        ]
        if story.ended.startswith("not over"):
            tiles.append(("left", duration(last.seconds_left), "at this speed"))
    return "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(unit)}</small></dd></div>"
        for name, value, unit in tiles
    )


def _policy() -> str:
    digest = base64.b64encode(hashlib.sha256(CSS.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
