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


def course(events: Sequence[Vitals], sign: str) -> list[tuple[int, float, str]]:
    """One sign through the run, each reading once: step, value, word."""
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
    """The five rows; then each sign that was ever not calm, and its rule. `every`: all signs."""
    lines: list[str] = []
    for equation, (name, headline) in EQUATIONS.items():
        mine = [id for id, rule in rules.items() if rule.equation == equation]
        measured = [id for id in mine if course(events, id)]
        word = _gravest(events, measured)
        lines.append(f"{equation} {name:<{_NAME_COLUMNS}}{word}")
        chosen = measured if every else [id for id in measured if id == headline] or measured[:1]
        for id in chosen:
            lines += _drawn(id, course(events, id), columns)
    return [*lines, "", *_not_calm(events, rules)]


def explain_rows(
    events: Sequence[Vitals], rules: Mapping[str, Rule], *, columns: int = 80
) -> list[str]:
    """Each row's word now, and the rule behind it with its source: of every sign that has a say.

    Signs that are not calm, or were once, come before those that are.
    """
    lines: list[str] = []
    for equation, (name, _) in EQUATIONS.items():
        courses = {
            id: course(events, id)
            for id, rule in rules.items()
            if rule.equation == equation and rule.limits
        }
        courses = {id: points for id, points in courses.items() if points}
        lines += [f"{equation} {name}: {_gravest(events, list(courses)) or 'not measured yet'}"]
        for id, points in sorted(courses.items(), key=lambda item: -_grave(item[1])):
            step, value, word = points[-1]
            lines.append(f"  {word:<6}{id} {value:.4g} at step {step:,}")
            paragraphs = [rules[id].told, f"source: {rules[id].source}"]
            lines += [
                f"        {part}"
                for paragraph in paragraphs
                for part in folded(paragraph, columns - 8)
            ]
        lines.append("")
    return lines[:-1]


def _grave(points: Sequence[tuple[int, float, str]]) -> int:
    return max(WORDS.index(cast("Word", word)) for *_, word in points)


def _drawn(id: str, points: Sequence[tuple[int, float, str]], columns: int) -> list[str]:
    values = [value for _, value, _ in points if math.isfinite(value)]
    if not values:
        return [f"  {id}: nothing finite was measured"]
    curve = braille(values, max(8, columns - 2 * _NAME_COLUMNS), _CURVE_ROWS)
    first, last = points[0][0], points[-1][0]
    reach = f"  {id}: {min(values):.4g} to {max(values):.4g}, now {values[-1]:.4g}"
    return [f"{reach}, steps {first:,} to {last:,}", *(" " * _NAME_COLUMNS + row for row in curve)]


def _not_calm(events: Sequence[Vitals], rules: Mapping[str, Rule]) -> list[str]:
    lines: list[str] = []
    for id, rule in rules.items():
        bad = [(step, value, word) for step, value, word in course(events, id) if word != "calm"]
        if bad:
            (first, value, _), (last, _, _) = bad[0], bad[-1]
            gravest = "sick" if any(word == "sick" for *_, word in bad) else "watch"
            lines.append(f"{gravest:<6}{id}, steps {first:,} to {last:,}, at first {value:.4g}")
            lines.append(f"      {rule.told}")
            lines.append(f"      source: {rule.source}")
    return lines or ["calm throughout: no sign was ever anything else"]


def _gravest(events: Sequence[Vitals], signs: Sequence[str]) -> str:
    if not signs:
        return "not measured"
    words = {word for id in signs for *_, word in course(events, id)}
    at_last = {course(events, id)[-1][2] for id in signs}

    def gravest(of: set[str]) -> str:
        return next(word for word in reversed(WORDS) if word in of)

    latest, ever = gravest(at_last), gravest(words)
    return latest if latest == ever else f"{latest}, was {ever}"
