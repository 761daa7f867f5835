"""A loss that falls along a straight line tells that steps are too short; a bent one does not."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pellucid.diagnosis import diagnose
from pellucid.vitals import Mark
from support.courses import GUESSING, UNIGRAM, but

UPDATES = 200


def falling(end: float, *, bent: bool = False) -> tuple[tuple[int, float], ...]:
    """Losses from guessing to an end, straight or ever slower, with a little noise."""

    def part(step: int) -> float:
        t = step / UPDATES
        return (1 - math.exp(-5 * t)) if bent else t

    return tuple(
        (step, GUESSING - (GUESSING - end) * part(step) + 0.01 * math.sin(7 * step))
        for step in range(1, UPDATES + 1)
    )


@pytest.mark.parametrize(
    ("end", "bent", "first_step", "is_named"),
    [
        (GUESSING - 0.27, False, 1.0, True),
        (GUESSING - 0.27, True, 1.0, False),
        (UNIGRAM + 0.2, False, 1.0, False),  # it will soon know how frequent tokens are
        (GUESSING - 0.27, False, 0.1, False),  # eps or a clip shortens the steps of Adam
        (GUESSING - 0.005, False, 1.0, False),  # it may not fall at all
    ],
)
def test_rate_is_too_low_if_a_new_model_learns_along_a_straight_line(
    end: float, bent: bool, first_step: float, is_named: bool
) -> None:
    history = but(
        losses=falling(end, bent=bent),
        signs={"update.effective_step": (first_step, first_step), "loss.probe": (GUESSING, end)},
        facts={"warmup_steps": 0},
    )()
    named = [f for f in diagnose(history) if f.code == "OPT007"]
    assert bool(named) == is_named
    if named:
        assert named[0].severity == "fault"
        assert "first speed" in named[0].what


def test_plain_descent_that_falls_straight_is_too_slow_as_well() -> None:
    end = GUESSING - 0.27
    history = but(
        losses=falling(end),
        signs={"loss.probe": (GUESSING, end)},
        facts={"warmup_steps": 0, "optimiser": "SGD", "betas": None, "eps": None, "momentum": 0.0},
    )()
    assert "OPT007" in {finding.code for finding in diagnose(history)}


def test_a_warm_up_that_goes_on_says_nothing_of_the_full_rate() -> None:
    history = but(
        losses=falling(GUESSING - 0.27),
        signs={"loss.probe": (GUESSING, GUESSING - 0.27)},
        rates=tuple((step, 1e-5 * step) for step in range(1, UPDATES + 1)),
    )()
    assert "OPT007" not in {finding.code for finding in diagnose(history)}


def test_texts_that_become_longer_say_nothing_of_the_rate() -> None:
    history = but(
        losses=falling(GUESSING - 0.27),
        signs={"update.effective_step": (1.0, 1.0), "loss.probe": (GUESSING, GUESSING - 0.27)},
        facts={"warmup_steps": 0},
    )()
    for last, named in ((10.0, True), (30.0, False)):
        lengths = [10.0 + (last - 10.0) * n / 40 for n in range(40)]
        mark = Mark(n_seen=40, n_seeable=40, first=1, values=lengths, steps=[*range(1, 41)])
        findings = diagnose(replace(history, marks={**history.marks, "length": mark}))
        assert ("OPT007" in {finding.code for finding in findings}) == named
