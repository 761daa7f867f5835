"""What tuning may change: keys of a config, each with its range."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pellucid import config
from pellucid.config import encode, run_from_table
from pellucid.config.codec import flatten
from pellucid.errors import ConfigError
from pellucid.presets import find

#: Where a key without dots is looked for, in this order.
_PLACES = ("", "optimiser.", "schedule.", "training.", "model.", "model.decoder.", "model.encoder.")
#: Without a range, a number may become so many times larger or smaller.
_REACH, _WHOLE_REACH = 10.0, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedKey:
    """A key with its range, on a logarithmic scale if its low end is above 0.

    With `choices` it has these values, and no range.
    """

    path: str
    low: float
    high: float
    is_integer: bool
    start: Any
    choices: tuple[Any, ...] = ()

    def suggest(self, trial: Any) -> Any:
        """A value of an optuna trial."""
        if self.choices:
            return trial.suggest_categorical(self.path, self.choices)
        ask = trial.suggest_int if self.is_integer else trial.suggest_float
        return ask(self.path, self.low, self.high, log=self.low > 0)

    def includes_start(self) -> bool:
        """Whether the config's own value is one of those that are tried."""
        return self.start in self.choices if self.choices else self.low <= self.start <= self.high


def chosen_key(run: config.Run, name: str, choices: Sequence[Any]) -> TunedKey:
    """The key of this name in a config, with a list of values to choose from.

    Args:
        run: the config.
        name: the key.
        choices: its values.

    Raises:
        ConfigError: there is no such key, fewer than two values, or one that is not allowed.
    """
    values = flatten(encode(run))
    path = next((place + name for place in _PLACES if place + name in values), None)
    if path is None or len(choices) < 2:
        raise ConfigError(
            f"{name}: expected a key of the config, with a list of two values or more"
        )
    for value in choices:
        with_values(run, {path: value})
    return TunedKey(
        path=path, low=0, high=0, is_integer=False, start=values[path], choices=tuple(choices)
    )


def tuned_key(run: config.Run, text: str) -> TunedKey:
    """The key that a text such as "learning_rate" or "weight_decay=0..0.3" names in a config.

    Args:
        run: the config; the range lies around its value unless the text gives one.
        text: a key, perhaps with its range.

    Raises:
        ConfigError: there is no such number, or its range is empty or not allowed.
    """
    name, _, ends = text.partition("=")
    values = flatten(encode(run))
    numbers = {key: value for key, value in values.items() if _is_number(value)}
    path = next((place + name for place in _PLACES if place + name in numbers), None)
    if path is None:
        raise ConfigError(
            f"--tune {text}: the config has no number {name!r}; name a key such as learning_rate, "
            "training.batch_size or model.decoder.dropout"
        )
    start = numbers[path]
    is_integer = isinstance(start, int)
    low, high = _ends(text, ends) if ends else _default_range(text, start)
    if is_integer:
        low, high = math.ceil(low), math.floor(high)
    if not low < high:
        raise ConfigError(f"--tune {text}: the range from {low:g} to {high:g} is empty")
    for value in (low, high):
        try:
            with_values(run, {path: value})
        except ConfigError as error:
            raise ConfigError(
                f"--tune {text}: {error}; give a range that the key allows, such as "
                f"--tune {name}={low:g}..{high:g}"
            ) from None
    return TunedKey(path=path, low=low, high=high, is_integer=is_integer, start=start)


def with_values(run: config.Run, values: Mapping[str, Any]) -> config.Run:
    """The config with other values at these keys.

    Args:
        run: the config.
        values: a value for each key.

    Raises:
        ConfigError: a value is not allowed.
    """
    return run_from_table(
        encode(run), find, [f"{path}={value!r}" for path, value in values.items()]
    )


def _default_range(text: str, start: float) -> tuple[float, float]:
    if start <= 0:
        raise ConfigError(
            f"--tune {text}: its value is {start:g}, which has no range around it: give one, such "
            f"as --tune {text}=0..0.3"
        )
    if isinstance(start, int):
        return max(1, start // _WHOLE_REACH), start * _WHOLE_REACH
    return start / _REACH, start * _REACH


def _ends(text: str, ends: str) -> tuple[float, float]:
    low, dots, high = ends.partition("..")
    try:
        numbers = float(low), float(high)
    except ValueError:
        numbers = math.nan, math.nan
    if not dots or not all(map(math.isfinite, numbers)):
        raise ConfigError(f"--tune {text}: expected a range such as KEY=0.001..0.1, was {ends!r}")
    return numbers


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
