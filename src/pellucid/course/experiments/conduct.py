"""Run an experiment: measure with each seed, then let the checks judge."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pellucid.course.experiments.picture import Picture
from pellucid.course.experiments.record import (
    Experiment,
    Number,
    Outcome,
    Reading,
    Setting,
    Verdict,
    judge,
)
from pellucid.extras import import_extra
from pellucid.typed import own_randomness

#: Lines of progress come no faster than this.
_SECONDS_BETWEEN_LINES = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A measured claim; the picture is of the first seed."""

    experiment: Experiment
    numbers: Mapping[str, Number]
    outcomes: tuple[Outcome, ...]
    verdict: Verdict
    picture: Picture
    seeds: tuple[int, ...]
    quick: bool
    seconds: float


def conduct(
    experiment: Experiment,
    *,
    seeds: int | None = None,
    quick: bool = False,
    notify: Callable[[str], None] = lambda line: None,
) -> Result:
    """Measure a claim and judge it.

    Args:
        experiment: the experiment.
        seeds: the number of seeds instead of the usual one; an exact computation has none.
        quick: measure with fewer seeds and shorter trainings.
        notify: gets lines of progress.

    Raises:
        ConfigError: seeds are compared by scipy, which is not installed.
    """
    usual = experiment.quick_seeds if quick else experiment.seeds
    count = (seeds or usual) if experiment.seeds else 0
    names = tuple(range(1, count + 1))
    if names:
        import_extra("lab", "scipy.stats")
    started = time.perf_counter()
    readings: list[Reading] = []
    for seed in names or (0,):
        prefix = f"seed {seed} of {count}: " if count else ""
        report = _throttled(notify, prefix)
        report("measuring")
        with own_randomness(seed):
            readings.append(experiment.measure(Setting(seed=seed, quick=quick, notify=report)))
    numbers = gather_numbers(readings, names)
    outcomes = judge_checks(experiment, numbers)
    return Result(
        experiment=experiment,
        numbers=numbers,
        outcomes=outcomes,
        verdict=judge(outcomes),
        picture=readings[0].picture,
        seeds=names,
        quick=quick,
        seconds=time.perf_counter() - started,
    )


def gather_numbers(readings: Sequence[Reading], seeds: tuple[int, ...]) -> dict[str, Number]:
    """Each number over its readings."""
    return {
        name: Number(
            name=name,
            values=tuple(float(reading.numbers[name]) for reading in readings),
            seeds=seeds,
        )
        for name in readings[0].numbers
    }


def judge_checks(experiment: Experiment, numbers: Mapping[str, Number]) -> tuple[Outcome, ...]:
    """The outcome of each check."""
    return tuple(check.outcome(numbers[check.number]) for check in experiment.checks)


def result_facts(result: Result) -> dict[str, Any]:
    """The result for programs."""
    return experiment_facts(result.experiment) | {
        "measured": {name: _number_facts(number) for name, number in result.numbers.items()},
        "outcomes": list(result.outcomes),
        "verdict": result.verdict.value,
        "seeds": list(result.seeds),
        "quick": result.quick,
        "seconds": round(result.seconds, 3),
    }


def experiment_facts(experiment: Experiment) -> dict[str, Any]:
    """The record for programs, without a measurement."""
    source = experiment.source
    return {
        "name": experiment.name,
        "title": experiment.title,
        "description": experiment.description,
        "question": experiment.question.text,
        "choices": list(experiment.question.choices),
        "claimed": experiment.question.choices[experiment.question.claimed],
        "claim": experiment.claim,
        "rule": [str(check) for check in experiment.checks],
        "refuted_by": experiment.refuted_by,
        "concepts": list(experiment.concepts),
        "source": str(source),
    }


def _number_facts(number: Number) -> dict[str, Any]:
    interval = number.interval
    return {
        "value": number.mean,
        "values": list(number.values),
        "seeds": list(number.seeds),
        "interval": None if interval is None else list(interval),
    }


def _throttled(notify: Callable[[str], None], prefix: str) -> Callable[[str], None]:
    """Hands a line on if the last one was long enough ago."""
    last = time.monotonic()

    def report(line: str) -> None:
        nonlocal last
        if time.monotonic() - last >= _SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            notify(prefix + line)

    return report
