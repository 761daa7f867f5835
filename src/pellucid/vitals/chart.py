"""The vital signs of a whole run, for a terminal: five rows with their curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import cast

from pellucid.display import folded
from pellucid.display.curve import braille
from pellucid.training import Vitals
from pellucid.vitals.rules import Rule
from pellucid.vitals.signs import EQUATIONS, WORDS, Word

_CURVE_ROWS, _NAME_COLUMNS = 2, 14


def list_readings(events: Sequence[Vitals], sign: str) -> list[tuple[int, float, str]]:
    """The readings of one sign in a run, each once: step, value, word."""
    readings = {
        step: (value, word)
        for event in events
        for id, _, value, word, step, _ in event.signs
        if id == sign
    }
    return [(step, *reading) for step, reading in sorted(readings.items())]


def chart(
    events: Sequence[Vitals], rules: Mapping[str, Rule], *, columns: int = 80, every: bool = False
) -> list[str]:
    """The five rows with their curves; then each sign that was ever not calm, with its rule.

    Args:
        events: All readings of a run.
        rules: The rules by sign.
        columns: Width of the terminal.
        every: Whether a row has a curve of each of its signs.
    """
    lines: list[str] = []
    for equation, (name, headline) in EQUATIONS.items():
        ids = [id for id, rule in rules.items() if rule.equation == equation]
        measured = [id for id in ids if list_readings(events, id)]
        word = _gravest(events, measured)
        lines.append(f"{equation} {name:<{_NAME_COLUMNS}}{word}")
        drawn_ids = measured if every else [id for id in measured if id == headline] or measured[:1]
        for id in drawn_ids:
            lines += _draw_sign(id, list_readings(events, id), columns)
    return [*lines, "", *_not_calm(events, rules)]


def explain_rows(
    events: Sequence[Vitals], rules: Mapping[str, Rule], *, columns: int = 80
) -> list[str]:
    """Each row's word now, and for every sign that can decide it the value, rule and source.

    Signs that are not calm, or were not, come first.

    Args:
        events: All readings of a run.
        rules: The rules by sign.
        columns: Width of the terminal.
    """
    lines: list[str] = []
    for equation, (name, _) in EQUATIONS.items():
        readings_by_id = {
            id: list_readings(events, id)
            for id, rule in rules.items()
            if rule.equation == equation and rule.limits
        }
        readings_by_id = {id: points for id, points in readings_by_id.items() if points}
        lines += [
            f"{equation} {name}: {_gravest(events, list(readings_by_id)) or 'not measured yet'}"
        ]
        for id, points in sorted(
            readings_by_id.items(), key=lambda item: -max(_grade(word) for *_, word in item[1])
        ):
            step, value, word = points[-1]
            lines.append(f"  {word:<6}{id} {value:.4g} at step {step:,}")
            paragraphs = [rules[id].description, f"source: {rules[id].source}"]
            lines += [
                f"        {part}"
                for paragraph in paragraphs
                for part in folded(paragraph, columns - 8)
            ]
        lines.append("")
    return lines[:-1]


def _grade(word: str) -> int:
    return WORDS.index(cast("Word", word))


def _draw_sign(id: str, points: Sequence[tuple[int, float, str]], columns: int) -> list[str]:
    values = [value for _, value, _ in points if math.isfinite(value)]
    if not values:
        return [f"  {id}: nothing finite was measured"]
    curve = braille(values, max(8, columns - 2 * _NAME_COLUMNS), _CURVE_ROWS)
    first, last = points[0][0], points[-1][0]
    summary = f"  {id}: {min(values):.4g} to {max(values):.4g}, now {values[-1]:.4g}"
    return [
        f"{summary}, steps {first:,} to {last:,}",
        *(" " * _NAME_COLUMNS + row for row in curve),
    ]


def _not_calm(events: Sequence[Vitals], rules: Mapping[str, Rule]) -> list[str]:
    lines: list[str] = []
    for id, rule in rules.items():
        bad = [
            (step, value, word) for step, value, word in list_readings(events, id) if word != "calm"
        ]
        if bad:
            (first, value, _), (last, _, _) = bad[0], bad[-1]
            gravest = "sick" if any(word == "sick" for *_, word in bad) else "watch"
            lines.append(f"{gravest:<6}{id}, steps {first:,} to {last:,}, at first {value:.4g}")
            lines.append(f"      {rule.description}")
            lines.append(f"      source: {rule.source}")
    return lines or ["calm throughout: no sign was ever anything else"]


def _gravest(events: Sequence[Vitals], signs: Sequence[str]) -> str:
    if not signs:
        return "not measured"
    words = {word for id in signs for *_, word in list_readings(events, id)}
    last_words = {list_readings(events, id)[-1][2] for id in signs}
    latest, gravest = max(last_words, key=_grade), max(words, key=_grade)
    return latest if latest == gravest else f"{latest}, was {gravest}"
