"""The record of an experiment: a claim with its source, and the rule that judges it.

A verdict never comes from prose. Each claim has checks: ranges in which a measured number has to
lie. The checks give the verdict, and they say what would refute the claim.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from pellucid.course.experiments.picture import Picture
from pellucid.lab.statistics import Interval, mean_interval

Outcome = Literal["holds", "fails", "undecided"]


class Verdict(StrEnum):
    """What a measurement says about a claim."""

    CONFIRMED = "confirmed"
    CONTRADICTED = "contradicted"
    IN_PART = "in part"
    NOT_DECIDED = "not decided at this size"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A paper or a book, and the place in it."""

    authors: str
    year: int
    title: str
    place: str = ""

    def __str__(self) -> str:
        place = f", {self.place}" if self.place else ""
        return f'{self.authors} {self.year}, "{self.title}"{place}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A prediction to make before the measurement; `claimed` is the index of the claim's choice."""

    text: str
    choices: tuple[str, ...]
    claimed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A measured number: a value for each seed, or one value that is computed and not sampled."""

    name: str
    values: tuple[float, ...]
    seeds: tuple[int, ...]

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return math.fsum(self.values) / len(self.values)

    @property
    def interval(self) -> Interval | None:
        """The 95% interval of the mean; None for a computed value, one seed, or infinite values."""
        if not self.seeds or not all(map(math.isfinite, self.values)):
            return None
        return mean_interval(self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One part of a claim: the number lies between `low` and `high`.

    A computed number holds or fails as it is. A number with seeds is decided by the 95% interval of
    its mean: it holds if all of the interval lies in the range, and fails if none of it does. One
    seed decides nothing.
    """

    number: str
    low: float = -math.inf
    high: float = math.inf

    def outcome(self, number: Number) -> Outcome:
        """Whether the measured number is in the range, as far as its seeds can tell."""
        ends = number.interval if number.seeds else (number.mean, number.mean)
        if ends is None or any(map(math.isnan, ends)):
            return "undecided"
        if self.low <= ends[0] and ends[1] <= self.high:
            return "holds"
        return "fails" if ends[1] < self.low or ends[0] > self.high else "undecided"

    def __str__(self) -> str:
        return f"{self.number}: {_describe_range(self.low, self.high)}"

    @property
    def refuted_by(self) -> str:
        """The values that would refute this part, in words."""
        low = "" if self.low == -math.inf else f"below {self.low:g}"
        high = "" if self.high == math.inf else f"above {self.high:g}"
        return f"{self.number} {' or '.join(filter(None, (low, high)))}"


def lower_bound(number: str, low: float) -> Check:
    """The number is at least `low`."""
    return Check(number=number, low=low)


def upper_bound(number: str, high: float) -> Check:
    """The number is at most `high`."""
    return Check(number=number, high=high)


def in_range(number: str, low: float, high: float) -> Check:
    """The number lies between two values.

    Args:
        number: its name.
        low: the least value.
        high: the largest value.
    """
    return Check(number=number, low=low, high=high)


def judge(outcomes: Sequence[Outcome]) -> Verdict:
    """Confirmed if every check holds, contradicted if every check fails.

    In part if some hold and some fail. Otherwise the measurement does not decide.
    """
    if all(outcome == "holds" for outcome in outcomes):
        return Verdict.CONFIRMED
    if all(outcome == "fails" for outcome in outcomes):
        return Verdict.CONTRADICTED
    if {"holds", "fails"} <= set(outcomes):
        return Verdict.IN_PART
    return Verdict.NOT_DECIDED


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How to measure: with which seed, whether quickly, and where to report progress."""

    seed: int
    quick: bool
    notify: Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The numbers of one measurement by name, and its picture."""

    numbers: Mapping[str, float]
    picture: Picture


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A claim of the textbook that this machine can measure.

    Args:
        name: Its name on the command line.
        title: A heading.
        description: What it does, in one sentence.
        question: A prediction for the reader.
        claim: The claim as textbooks state it.
        source: Where it is stated.
        concepts: Names of equations in `pellucid.maths`, and keys of a config.
        checks: The rule of the verdict.
        measure: Measures with one seed.
        seeds: The usual number of seeds; 0 if nothing is random.
        quick_seeds: Their number with `--quick`; at least two, as one seed decides nothing.
    """

    name: str
    title: str
    description: str
    question: Question
    claim: str
    source: Source
    concepts: tuple[str, ...]
    checks: tuple[Check, ...]
    measure: Callable[[Setting], Reading]
    seeds: int = 0
    quick_seeds: int = 0

    @property
    def refuted_by(self) -> str:
        """What would refute the claim."""
        return "; ".join(check.refuted_by for check in self.checks)


def _describe_range(low: float, high: float) -> str:
    if low == -math.inf:
        return f"at most {high:g}"
    return f"at least {low:g}" if high == math.inf else f"from {low:g} to {high:g}"
