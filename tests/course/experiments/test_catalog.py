"""Every experiment: a complete record, a rule that can contradict, and a measurement."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks import experiments as benchmark
from pellucid import config, maths
from pellucid.course import experiments
from pellucid.course.experiments import EXPERIMENTS, Experiment, Number, Verdict, conduct
from pellucid.course.experiments.conduct import judge_checks
from pellucid.course.experiments.numbers import norms, sequences
from pellucid.course.experiments.record import Check, judge
from pellucid.errors import LibraryError
from pellucid.json_text import json_text

ROOT = Path(__file__).parents[3]
TIMED = ("rms-norm-is-faster", "attention-cost")
SMALL = [
    name
    for name, experiment in EXPERIMENTS.items()
    if ".numbers." in experiment.measure.__module__ and name not in TIMED
]
TRAINED = [name for name in EXPERIMENTS if name not in SMALL]
#: Always measured; the other trained ones are nightly.
SAMPLE = ("p-minus-y", "bank-in-context")
#: Verdicts of small experiments that differ from the claim; none today.
NOT_CONFIRMED: dict[str, Verdict] = {}


def config_kinds() -> dict[str, type[Any]]:
    return {
        kind.__name__: kind
        for kind in vars(config).values()
        if isinstance(kind, type) and dataclasses.is_dataclass(kind)
    }


def is_config_key(path: str) -> bool:
    """Whether each part of a dotted path is a field of some kind, the first one of a run's."""
    first, *parts = path.split(".")
    fields = {f.name for kind in config_kinds().values() for f in dataclasses.fields(kind)}
    return first in {f.name for f in dataclasses.fields(config.Run)} and fields >= set(parts)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_record_is_complete(name: str) -> None:
    experiment = EXPERIMENTS[name]
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)
    for text in (experiment.description, experiment.claim, experiment.question.text):
        assert len(text) > 20
        assert text[-1] in ".?)" or text == experiment.question.text
    assert len(set(experiment.question.choices)) >= 2
    assert experiment.question.claimed < len(experiment.question.choices)
    assert 1900 < experiment.source.year <= 2026
    assert experiment.source.authors
    assert experiment.source.title
    assert experiment.checks
    assert experiment.refuted_by
    assert experiment.concepts
    # one seed decides nothing
    assert (experiment.seeds == experiment.quick_seeds == 0) or (
        experiment.seeds >= experiment.quick_seeds >= 2
    )


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_concepts_are_equations_and_keys(name: str) -> None:
    for concept in EXPERIMENTS[name].concepts:
        assert concept in maths.__all__ or is_config_key(concept), concept
    assert EXPERIMENTS[name].concepts[0] in maths.__all__


def value_in(check: Check, *, inside: bool) -> float:
    """A value in the range of a check, or outside it."""
    low, high = check.low, check.high
    if not inside:
        return low - 1 if math.isfinite(low) else high + 1 if math.isfinite(high) else 0.0
    if math.isfinite(low) and math.isfinite(high):
        return (low + high) / 2
    return low + 1 if low > -math.inf else high - 1


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_turned_numbers_contradict_the_claim(name: str) -> None:
    experiment = EXPERIMENTS[name]
    seeds = tuple(range(1, experiment.quick_seeds + 1))

    def verdict(*, inside: bool) -> Verdict:
        numbers = {
            check.number: Number(
                name=check.number,
                values=(value_in(check, inside=inside),) * max(1, len(seeds)),
                seeds=seeds,
            )
            for check in experiment.checks
        }
        return judge(judge_checks(experiment, numbers))

    assert verdict(inside=False) == Verdict.CONTRADICTED
    assert verdict(inside=True) == Verdict.CONFIRMED


def measured(name: str) -> experiments.Result:
    result = conduct(EXPERIMENTS[name], quick=True)
    assert {check.number for check in result.experiment.checks} <= result.numbers.keys()
    assert result.verdict == judge(result.outcomes)
    lines = list(experiments.picture_lines(result.picture))
    assert max(map(len, lines)) <= 120
    assert len(lines) > 2
    ElementTree.fromstring(experiments.picture_svg(result.picture))
    assert "Content-Security-Policy" in experiments.result_page(result)
    json.loads(json_text(experiments.result_facts(result)))
    return result


@pytest.mark.parametrize("name", SMALL)
def test_a_small_experiment_comes_to_its_verdict(name: str) -> None:
    assert measured(name).verdict == NOT_CONFIRMED.get(name, Verdict.CONFIRMED)


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in SAMPLE else pytest.mark.nightly) for n in TRAINED],
)
def test_a_trained_experiment_is_measured(name: str) -> None:
    result = measured(name)
    assert result.seconds > 0
    if name in SAMPLE:
        assert result.verdict == Verdict.CONFIRMED


def test_equal_seeds_measure_equal_numbers() -> None:
    first, second = (conduct(EXPERIMENTS["root-of-d"], quick=True) for _ in range(2))
    assert first.numbers == second.numbers


def test_more_seeds_are_more_values() -> None:
    result = conduct(EXPERIMENTS["root-of-d"], seeds=7)
    assert {len(number.values) for number in result.numbers.values()} == {7}
    assert conduct(EXPERIMENTS["minus-log"], seeds=7).seeds == ()


def test_a_leak_that_is_not_there_is_not_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The measurement, and not only the rule, can turn the verdict."""
    monkeypatch.setattr(norms, "instance_norm", norms.layer_norm)
    result = conduct(EXPERIMENTS["norm-leaks-future"], quick=True)
    assert result.verdict == Verdict.IN_PART


def test_positions_that_do_not_rotate_contradict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequences, "rotary_angles", lambda places, **_: places[:, None] ** 2)
    result = conduct(EXPERIMENTS["rotary-shift"], quick=True)
    assert result.outcomes[0] == "fails"


def test_the_page_lists_every_experiment_as_measured() -> None:
    page = (ROOT / "docs" / "experiments.md").read_text("utf-8")
    assert benchmark.table(benchmark.newest()) in page
    assert all(f"| `{name}` |" in page for name in EXPERIMENTS)


def test_an_experiment_is_named_by_its_key() -> None:
    assert all(name == e.name for name, e in EXPERIMENTS.items())
    assert len(EXPERIMENTS) >= 55
    assert isinstance(EXPERIMENTS["grokking"], Experiment)


def test_seeds_without_scipy_are_refused_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    with pytest.raises(LibraryError, match="the library scipy"):
        conduct(EXPERIMENTS["temperature"], quick=True)
    assert conduct(EXPERIMENTS["minus-log"]).verdict is Verdict.CONFIRMED
