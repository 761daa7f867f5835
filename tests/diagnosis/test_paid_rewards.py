"""What mean rewards, lengths and losses say of a policy where a loop passes little else."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from pellucid.diagnosis import Facts, History, Reading, diagnose
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.causes.policies import flat_reward, paid_length
from pellucid.vitals import Mark
from pellucid.vitals.call.answer_texts import share_cut_off
from pellucid.vitals.call.reward_order import follow_lengths

UPDATES = 120
_DRAWS = random.Random(3)
NOISE = [_DRAWS.gauss(0, 0.1) for _ in range(UPDATES)]
LENGTHS = [10 + step / 3 + 20 * noise for step, noise in enumerate(NOISE)]


def points(values: Sequence[float]) -> tuple[tuple[int, float], ...]:
    return tuple(enumerate(values, 1))


def policy(
    n_answers: int = 24, losses: Sequence[float] = (), **columns: Sequence[float]
) -> History:
    """A training on rewards, over after all updates, that passes these columns."""
    signs = {"answers.rows": float(n_answers)} if n_answers else {}
    stride = Mark(UPDATES, UPDATES, 1, [1e-3] * UPDATES, list(range(1, UPDATES + 1)))
    facts: dict[str, Any] = {"objective": "rewards", "pretrained": True, "total_steps": UPDATES}
    return History(
        name="policy",
        losses=points(losses),
        rates=points([1e-3] * UPDATES),
        facts=Facts(**facts),
        signs={name: (Reading(1, value, "calm"),) for name, value in signs.items()},
        measures={name: points(values) for name, values in columns.items()},
        marks={"stride": stride},
    )


def alarms(history: History) -> list[str]:
    return [finding.code for finding in diagnose(history) if finding.severity != "note"]


def rewards(slope: float) -> list[float]:
    return [0.5 + slope * step / UPDATES + noise for step, noise in enumerate(NOISE)]


def test_mean_rewards_alone_say_that_the_reward_did_not_rise() -> None:
    assert alarms(policy(reward=rewards(0.0))) == ["RLH012"]
    assert flat_reward(HistoryView(policy(0, reward=rewards(0.0)))) is None


@pytest.mark.parametrize("slope", [0.2, 0.4, 1.0])
def test_mean_rewards_that_show_a_trend_raise_no_alarm(slope: float) -> None:
    assert alarms(policy(reward=rewards(slope))) == []


def test_a_reward_that_is_the_length_is_named() -> None:
    paid = [0.1 * length for length in LENGTHS]
    findings = diagnose(policy(reward=paid, length=LENGTHS))
    # length may be what is wanted
    assert [(f.code, f.severity) for f in findings] == [("RLH008", "note")]


def test_a_reward_that_rises_with_the_length_and_is_another_thing_is_none() -> None:
    rising = [0.1 * length + _DRAWS.gauss(0, 0.1) for length in LENGTHS]
    others = [0.03 * step + _DRAWS.gauss(0, 0.1) for step in range(UPDATES)]
    for paid in (rising, others, [-0.1 * length for length in LENGTHS]):
        assert paid_length(HistoryView(policy(reward=paid, length=LENGTHS))) is None


def test_rewards_of_the_first_answers_are_compared_with_their_lengths() -> None:
    lengths = [3.0, 5.0, 8.0, 9.0, 4.0, 6.0, 7.0, 2.0]
    assert follow_lengths([0.5 * length - 1 for length in lengths], lengths) == pytest.approx(1)
    assert follow_lengths([0.5] * 8, lengths) is None
    assert follow_lengths(lengths, [4.0, 5.0] * 4) is None
    assert follow_lengths(lengths, [*lengths[:7], 0.0]) is None


@pytest.mark.parametrize(("columns", "is_named"), [({"reward": rewards(1.0)}, True), ({}, False)])
def test_a_distance_of_0_without_rewards_is_that_of_kto(
    columns: dict[str, list[float]], is_named: bool
) -> None:
    history = replace(policy(kl=[0.0] * UPDATES, **columns), grad_norms=points([1.0] * UPDATES))
    assert ("REF002" in {finding.code for finding in diagnose(history)}) is is_named


@pytest.mark.parametrize(
    ("losses", "code"), [(rewards(0.0), "GRD002"), ([0.0] * UPDATES, "RLH001")]
)
def test_a_loss_that_moves_without_a_gradient_has_advantages(
    losses: Sequence[float], code: str
) -> None:
    blank = Mark(UPDATES, UPDATES, 1, [0.0] * UPDATES, list(range(1, UPDATES + 1)))
    history = policy(0, losses, reward=rewards(0.0))
    view = History(
        name="policy",
        losses=history.losses,
        facts=history.facts,
        measures=history.measures,
        marks={"blank": blank},
    )
    assert alarms(view)[0] == code


END, PAD = 1, 0


def texts(lengths: Sequence[int], most: int, *, is_ended: bool) -> list[torch.Tensor]:
    """Texts of these lengths, cut off at the largest, in rows of one width."""
    rows = [[*range(10 + at, 9 + at + n), END if is_ended else n] for at, n in enumerate(lengths)]
    return [torch.tensor([*row[:most], *[PAD] * (most - len(row))]) for row in rows]


def test_texts_that_stop_at_one_length_are_cut_off() -> None:
    lengths, n_paid = [20] * 10 + [8, 9], [float(5 + at) for at in range(12)]
    assert share_cut_off(texts(lengths, 12, is_ended=True), n_paid) == pytest.approx(10 / 12)
    # texts of one form: their prompts have one length, or all of them end
    assert share_cut_off(texts(lengths, 12, is_ended=True), [5.0] * 12) == 0
    assert share_cut_off(texts([12] * 10 + [8, 9], 12, is_ended=True), n_paid) == 0
    # no shorter text shows how texts end
    assert share_cut_off(texts([20] * 12, 12, is_ended=True), n_paid) is None
