"""The rules behind the words: one readable file of thresholds, each with its source."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib import resources
from pathlib import Path
from typing import Any

from pellucid.errors import ConfigError
from pellucid.reader import as_table, parse_toml, read_toml
from pellucid.vitals.signs import Equation, Word


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The thresholds at which a sign is called watch or sick; None means no threshold.

    A word holds once `readings` readings in a row are at least that bad.

    Attributes:
        id: the name of the sign.
        equation: the number of its equation, from 1 to 5.
        what: the meaning of the number.
        source: of the thresholds.
        watch_above: the number above which the word is watch.
        sick_above: the number above which the word is sick.
        watch_below: the number below which the word is watch.
        sick_below: the number below which the word is sick.
        only: the condition under which the rule holds, as a sentence; empty if it always does.
    """

    id: str
    equation: Equation
    what: str
    source: str
    readings: int = 1
    watch_above: float | None = None
    sick_above: float | None = None
    watch_below: float | None = None
    sick_below: float | None = None
    only: str = ""

    def word(self, value: float) -> Word:
        """The word for one reading alone; a value that is not finite is sick."""
        if not math.isfinite(value):
            return "sick"
        if _is_outside(value, self.sick_above, self.sick_below):
            return "sick"
        return "watch" if _is_outside(value, self.watch_above, self.watch_below) else "calm"

    @property
    def calm_range(self) -> tuple[float, float]:
        """The lowest and the highest number that is calm."""
        upper = (limit for limit in (self.watch_above, self.sick_above) if limit is not None)
        lower = (limit for limit in (self.watch_below, self.sick_below) if limit is not None)
        largest = sys.float_info.max  # an infinite number is never calm
        return max(lower, default=-largest), min(upper, default=largest)

    @property
    def limits(self) -> list[tuple[Word, float]]:
        """Every threshold, with its word."""
        thresholds: list[tuple[Word, float | None]] = [
            ("watch", self.watch_above),
            ("sick", self.sick_above),
            ("watch", self.watch_below),
            ("sick", self.sick_below),
        ]
        return [(word, limit) for word, limit in thresholds if limit is not None]

    def describe_breach(self, word: Word, value: float) -> str:
        """The threshold that a value has crossed, in one line; empty for calm."""
        if word == "calm":
            return ""
        if not math.isfinite(value):
            return f"not finite: {self.what}"
        upper, lower = (
            (self.sick_above, self.sick_below)
            if word == "sick"
            else (self.watch_above, self.watch_below)
        )
        is_high = upper is not None and value > upper
        side = f"above {upper:g}" if is_high or lower is None else f"below {lower:g}"
        return f"{word} {side}: {self.what}"

    @property
    def description(self) -> str:
        """The rule as a sentence."""
        parts = [
            f"{word} {side} {limit:g}"
            for word, side, limit in (
                ("watch", "above", self.watch_above),
                ("sick", "above", self.sick_above),
                ("watch", "below", self.watch_below),
                ("sick", "below", self.sick_below),
            )
            if limit is not None
        ]
        text = f"{self.what}: {', '.join(parts) or 'shown, not judged'}"
        text += f", {self.readings} readings in a row" if parts and self.readings > 1 else ""
        return text + (f"; only {self.only}" if self.only else "")


def rules_of(file: str | Path | None = None) -> dict[str, Rule]:
    """The package's rules by sign; `file` may override them.

    Raises:
        ConfigError: The file names an unknown sign or key, or a threshold is not a number.
    """
    text = resources.files("pellucid.vitals").joinpath("thresholds.toml").read_text("utf-8")
    tables = _tables(parse_toml(text, "thresholds.toml"), "thresholds.toml")
    if file is not None:
        overrides = _tables(read_toml(file, refusal=ConfigError), str(file))
        for name, table in overrides.items():
            if name not in tables:
                raise ConfigError(
                    f"{file}: there is no sign {name!r}; there are: {', '.join(tables)}"
                )
            tables[name] |= table
    return {name: _rule(name, table) for name, table in tables.items()}


def _tables(read: Mapping[str, Any], file: str) -> dict[str, dict[str, Any]]:
    """Tables such as `[attention.max_logit]`, by their dotted names."""
    return {
        f"{group}.{name}": dict(as_table(table, f"{file}: {group}.{name}", ConfigError))
        for group, signs in read.items()
        for name, table in as_table(signs, f"{file}: {group}", ConfigError).items()
    }


def _rule(name: str, table: dict[str, Any]) -> Rule:
    keys = [field.name for field in fields(Rule) if field.name != "id"]
    for key, value in table.items():
        if key not in keys:
            raise ConfigError(f"{name}: unknown key {key!r}; a rule has: {', '.join(keys)}")
        if "_above" in key or "_below" in key:
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ConfigError(f"{name}.{key} must be a number, was {value!r}")
            table[key] = float(value)
    return Rule(id=name, **table)


def _is_outside(value: float, upper: float | None, lower: float | None) -> bool:
    return (upper is not None and value > upper) or (lower is not None and value < lower)
