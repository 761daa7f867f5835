"""A run as a card, and a config as a table: what a notebook shows of them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from pellucid import config
from pellucid.counting import parameter_count
from pellucid.display import visible
from pellucid.display.numbers import short
from pellucid.presets import FAMILIES, diff, find
from pellucid.report.chart import svg
from pellucid.report.charts import charts
from pellucid.report.messages import message
from pellucid.report.page import document
from pellucid.report.sections import facts_table
from pellucid.report.story import build_story
from pellucid.runs import Run, RunFolder, read_events
from pellucid.training import events

#: What one does next with a run, by the command.
_NEXT = ("generate", "explain", "evaluate", "diagnose")


def run_card(run: Run) -> str:
    """A run as a page of its own: size, data, best loss, curve, the five words, commands.

    A published model has no events, and so a size only.
    """
    name, size = visible(run.folder.name), f"{short(parameter_count(run.config.model))} parameters"
    happened = read_events(RunFolder(run.folder).metrics)
    if not happened:
        return document(name, _header(name, size))
    story = build_story(happened, run.folder.name)
    facts = dict(story.facts)
    rows = [(key, facts[key]) for key in ("model", "text", "data", "tokens") if key in facts]
    if story.best is not None:
        best = f"{story.best.loss_nats:.4f} {message('nats-per', unit=story.unit)}"
        rows.append((message("best-held-out"), f"{best}, {message('step', step=story.best.step)}"))
    loss = next(chart for chart in charts(story) if chart.key == "loss")
    body = (
        _header(name, f"{size}; step {story.step:,}")
        + f'<div class="charts"><figure>{svg(loss)}</figure></div>'
        + _words(happened)
        + facts_table(message("facts"), rows)
        + _commands(str(run.folder))
    )
    return document(name, body)


def _header(name: str, text: str) -> str:
    return f'<header><h1>{escape(name)}</h1><p class="soft">{escape(text)}</p></header>'


def _words(happened: Sequence[events.Event]) -> str:
    """The last words of the five vital signs, as tiles."""
    vitals = [event for event in happened if isinstance(event, events.Vitals)]
    if not vitals:
        return ""
    tiles = "".join(
        f"<div><dt>{escape(equation)}</dt><dd>{escape(word or message('not-measured'))}</dd></div>"
        for equation, word in vitals[-1].rows
    )
    return f'<dl class="tiles">{tiles}</dl>'


def _commands(folder: str) -> str:
    text = ' "your text"'
    lines = [f"pellucid {verb} {folder}{text * (verb == 'explain')}" for verb in _NEXT]
    return f"<pre>{escape(chr(10).join(lines))}</pre>"


def config_table(run: config.Run) -> str:
    """A config as a table of what differs from the preset that is nearest to it."""
    preset, changes = nearest_preset(run)
    rows = "".join(
        f"<tr><td>{escape(path)}</td><td>{escape(str(theirs))}</td>"
        f"<td><b>{escape(str(ours))}</b></td></tr>"
        for path, (theirs, ours) in changes.items()
    )
    caption = message("differs-from", preset=preset, n=len(changes))
    head = "".join(f"<th>{message(key)}</th>" for key in ("key", "preset", "this-config"))
    return (
        f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{rows}</tbody></table>"
    )


def nearest_preset(run: config.Run) -> tuple[str, dict[str, tuple[Any, Any]]]:
    """The preset from which the fewest values differ, and those: (the preset's, the config's)."""
    presets = [name for family in FAMILIES.values() for name in family]
    changes = {name: diff(find(name), run) for name in presets}
    nearest = min(presets, key=lambda name: len(changes[name]))
    return nearest, changes[nearest]
