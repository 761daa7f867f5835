"""Limits that the fields of config classes state in their types, as `n_layers: Count`.

A message says the name, the value and the values that are allowed.
"""

from __future__ import annotations

import functools
import math
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from pellucid.errors import ConfigError
from pellucid.reader import short

#: The largest value of a name, and the reason; `_LARGEST_NUMBER` limits all other names. Whether
#: a machine has the memory is another question.
_LARGEST = {
    "n_layers": (10_000, "the deepest models that were ever trained have a thousand layers"),
    "n_heads": (2**14, "the widest models have some hundreds"),
    "n_kv_heads": (2**14, "the widest models have some hundreds"),
    "d_head": (2**14, "the widest heads have some hundreds"),
    "d_value": (2**14, "the widest heads have some hundreds"),
    "d_rotated": (2**14, "the widest heads have some hundreds"),
    "d_latent": (2**18, "a latent is narrower than the model"),
    "d_query_latent": (2**18, "a latent is narrower than the model"),
    "n_experts": (
        4096,
        "each expert is a module of its own; the largest layers have some hundreds",
    ),
    "d_model": (2**18, "the widest models have some tens of thousands"),
    "d_ff": (2**20, "the widest models have a hundred thousand"),
    "vocab_size": (2**22, "the largest known vocabularies have a million tokens"),
    "context_length": (2**24, "the longest known contexts have ten million tokens"),
    "batch_size": (2**20, "a batch is held in memory, and learns less per text as it grows"),
    "accumulation": (2**20, "a batch has at least one sequence in each part"),
    "rank": (2**16, "a rank is less than the width of the model"),
    "n_samples": (2**16, "all of them are written before one update"),
    "max_new_tokens": (2**20, "no model reads that far back"),
    "newton_schulz_steps": (1000, "five come as near as float32 can"),
    "power_iterations": (1000, "one is enough, because each update continues from the last"),
    "n_buckets": (2**16, "a bias is learnt for each"),
    "total_steps": (10**10, "no run lasts that long"),
    "threads": (2**14, "no machine has as many processors"),
}
_LARGEST_NUMBER = (10**15, "no run lasts that long")


def at_least(name: str, value: float, least: float) -> None:
    """Refuse a value below `least`, above the largest sensible one, or not finite."""
    _finite(name, value)
    if not value >= least:
        raise ConfigError(f"{name} must be at least {least}, was {short(value)}")
    largest, reason = _LARGEST.get(name, _LARGEST_NUMBER)
    if value > largest:
        raise ConfigError(f"{name} must be at most {largest:,}, was {short(value)}: {reason}")


def positive(name: str, value: float) -> None:
    """Refuse zero and values that are negative or not finite."""
    _finite(name, value)
    if not value > 0:
        raise ConfigError(f"{name} must be greater than 0, was {value}")


def fraction(name: str, value: float) -> None:
    """Refuse a value outside [0, 1)."""
    if not 0 <= value < 1:
        raise ConfigError(f"{name} must be at least 0 and less than 1, was {value}")


def _finite(name: str, value: float) -> None:
    if not -math.inf < value < math.inf:
        raise ConfigError(f"{name} must be a finite number, was {short(value)}")


def check_turns(kind: object, layers: tuple[object, ...], first: tuple[object, ...]) -> None:
    """Refuse a pattern of layers that has only one kind, or none after the first layers.

    Args:
        kind: The pattern. layers: The kinds that take turns. first: The kinds of the first layers.
    """
    name, n_kinds = type(kind).__name__, len(layers) + len(first)
    if n_kinds < 2:
        raise ConfigError(
            f"{name} needs at least two kinds of layers, was {n_kinds}: for one, name it itself"
        )
    if not layers:
        raise ConfigError(
            f"{name}.layers must name at least one kind, for the layers after the first "
            f"{len(first)}"
        )


@dataclass(frozen=True, slots=True)
class AtLeast:
    """The limit `at_least` in the type of a field."""

    least: float

    def __call__(self, name: str, value: float) -> None:
        """Refuse a value below the limit."""
        at_least(name, value, self.least)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Both limits of a number, in the type of a field: `gt` is greater than, `ge` includes it."""

    gt: float = -math.inf
    ge: float = -math.inf
    lt: float = math.inf
    le: float = math.inf

    @property
    def words(self) -> tuple[str, str]:
        """Such as `greater than 0` and `at most 1`."""
        low = f"at least {self.ge:g}" if self.ge > self.gt else f"greater than {self.gt:g}"
        return low, f"at most {self.le:g}" if self.le < self.lt else f"less than {self.lt:g}"

    def __call__(self, name: str, value: float) -> None:
        """Refuse a value outside the limits."""
        if not (self.gt < value < self.lt and self.ge <= value <= self.le):
            raise ConfigError(f"{name} must be {' and '.join(self.words)}, was {value}")


def _fractions(name: str, values: tuple[float, ...]) -> None:
    for value in values:
        fraction(name, value)


def _factors(name: str, values: tuple[float, ...]) -> None:
    for value in values:
        positive(name, value)


def _file_or_folder(name: str, paths: tuple[str, ...]) -> None:
    if not paths:
        raise ConfigError(f"{name} must name at least one file or folder")


Count = Annotated[int, AtLeast(1)]
NotNegative = Annotated[float, AtLeast(0)]
Positive = Annotated[float, positive]
Fraction = Annotated[float, fraction]
PositiveFraction = Annotated[float, positive, fraction]
#: A share that may be all, or all but nothing.
Share = Annotated[float, Interval(ge=0, le=1)]
PositiveShare = Annotated[float, Interval(gt=0, le=1)]
Betas = Annotated[tuple[float, float], _fractions]
Factors = Annotated[tuple[float, ...], _factors]
Paths = Annotated[tuple[str, ...], _file_or_folder]

Check = Callable[[str, Any], None]


class Checked:
    """A config class: it refuses values outside the limits that its fields state."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for name, check in _limits(type(self)):
            value = getattr(self, name)
            if value is not None:
                check(name, value)
        self._check()

    def _check(self) -> None:
        """Refuse values that do not fit each other."""


@functools.cache
def _limits(kind: type[Checked]) -> tuple[tuple[str, Check], ...]:
    """The limits of a class's fields, by name, in the order of the fields."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return tuple((name, check) for name, hint in hints.items() for check in _checks_in(hint))


def _checks_in(hint: Any) -> Iterator[Check]:
    """The limits in one type; an optional value has them too."""
    yield from getattr(hint, "__metadata__", ())
    for member in typing.get_args(hint):
        yield from getattr(member, "__metadata__", ())
