"""Trainings on answers that gain nothing, as histories: each is named by what it shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from pellucid.diagnosis import Facts, History, Reading, diagnose
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.causes.policies import flat_reward
from pellucid.vitals import Mark

UPDATES = 40


def points(values: Sequence[float], gap: int = 10) -> tuple[tuple[int, float], ...]:
    return tuple((gap * (i + 1), value) for i, value in enumerate(values))


def policy(
    *rewards: float,
    spread: float = 0.2,
    stride: float = 1e-3,
    columns: dict[str, float] | None = None,
    **facts: Any,
) -> History:
    """A training on rewards, over after 40 updates, with a row of its log for every ten."""
    steps = list(range(1, UPDATES + 1))
    strides = Mark(UPDATES, UPDATES, 1, [stride] * UPDATES, steps)
    measures = {"reward": points(rewards), "reward_spread": points([spread] * len(rewards))}
    measures |= {name: points([value] * len(rewards)) for name, value in (columns or {}).items()}
    settings: dict[str, Any] = {"objective": "rewards", "pretrained": True, "total_steps": UPDATES}
    return History(
        name="policy",
        rates=tuple((step, 1e-3) for step in steps),
        facts=Facts(**(settings | facts)),
        measures=measures,
        marks={"stride": strides},
    )


def pairs(losses: Sequence[float], signs: dict[str, float], **marks: Mark) -> History:
    """A training on pairs of answers."""
    return History(
        name="pairs",
        losses=points(losses, gap=1),
        facts=Facts(objective="preferences", pretrained=True),
        signs={f"answers.{name}": (Reading(1, value, "calm"),) for name, value in signs.items()},
        marks=marks,  # pyright: ignore[reportArgumentType]
    )


def agreeing(share: float, history: History) -> History:
    """The same training, with the share of comparisons in which the better answer is raised."""
    return replace(history, signs={"answers.agreement": (Reading(1, share, "calm"),)})


def passed_by_row(deviation: float) -> History:
    """A training that passes the reward of each answer: their deviation in the batch is known."""
    history = policy(0.5, 0.5, 0.5, 0.5)
    deviations = {"reward_deviation": points([deviation] * 4)}
    return replace(history, measures={"reward": history.measures["reward"], **deviations})


def at_the_foot(history: History) -> History:
    """The same training, at a rate that has hardly begun to rise."""
    return replace(history, rates=tuple((step, 3e-8 * step) for step in range(1, UPDATES + 1)))


def stepping(ratio: float, history: History) -> History:
    """The same training, whose first update moves the weights by so much of their size."""
    signs = {"update.ratio": (Reading(1, ratio, "sick"), Reading(20, 0.01, "calm"))}
    signs |= {"update.kl_forward": (Reading(1, 2.5, "sick"),)}
    return replace(history, signs={**history.signs, **signs})


def drawn(surplus: float, temperature: float) -> History:
    """A policy whose first answers are so much likelier to it than its own would be."""
    history = policy(0.5, 0.6, 0.7, 0.8)
    signs = {"answers.surplus": surplus, "logits.temperature": temperature}
    return replace(history, signs={id: (Reading(1, value, "calm"),) for id, value in signs.items()})


def closing(history: History, *entropies: float) -> History:
    """The same training, with so much entropy at the places of its answers, every 32 updates."""
    readings = tuple(Reading(32 * i, value, "calm") for i, value in enumerate(entropies, 1))
    return replace(history, signs={"predictions.paid_entropy": readings})


def apart(distance: float, history: History) -> History:
    """The same training, with its distance from the reference in each update."""
    return replace(history, measures=history.measures | {"kl": points([distance] * 4, gap=1)})


def weighed(explained: float, first: float) -> History:
    """Pairs that weigh unevenly before the first update, of a loss that is no constant."""
    signs = {"paired": 1.0, "uneven": 0.9, "weight": 0.02, "explained": explained}
    return pairs([first, 1.1, *[0.3] * 58], signs)


def blank(*rewards: float, judged: float | None = None, **options: Any) -> History:
    """A policy without a gradient in any update."""
    history = policy(*rewards, **options)
    mark = Mark(UPDATES, UPDATES, 1, [0.0] * UPDATES, list(range(1, UPDATES + 1)))
    history = replace(history, marks={"blank": mark})
    if judged is None:
        return history
    measures = {"reward": history.measures["reward"]}
    signs = {"answers.judged": (Reading(1, judged, "calm"),)}
    return replace(history, measures=measures, signs=signs)


def shrinking(rewards: Sequence[float], lengths: Sequence[float]) -> History:
    """A policy whose answers have so many tokens."""
    history = policy(*rewards)
    return replace(history, measures=history.measures | {"length": points(lengths)})


#: Rows that each had come so often before, in the last updates of the 8 that were looked at.
KNOWN = Mark(7, 8, 2, [0.8, 1.6, 2.4, 3.2, 4.0, 4.8, 5.6], [2, 3, 4, 5, 6, 7, 8])
TURNED = [-math.log(2) - 0.002 * step for step in range(60)]
DROPOUT = [0.71, 0.68, *[0.5] * 58]
FAULTS: dict[str, tuple[str, History]] = {
    "the reward stays": ("RLH012", policy(0.5, 0.51, 0.49, 0.5)),
    "the reward falls far": ("RLH003", policy(0.5, 0.2, 0.1, 0.1)),
    "the reward falls a little": ("RLH012", policy(0.5, 0.45, 0.42, 0.4)),
    "hardly a step": ("OPT007", policy(0.5, 0.51, 0.49, 0.5, stride=1e-6)),
    "frozen blocks": ("GRD003", policy(0.5, 0.5, 0.5, 0.5, frozen=0.98, frozen_body=True)),
    "the optimiser climbs": ("LOS009", policy(0.5, 0.4, 0.3, 0.2, maximizes=True)),
    "beta is huge": ("REF005", policy(0.5, 0.5, 0.51, 0.5, columns={"beta": 50.0, "length": 8.0})),
    "frozen blocks, and half a gain": (
        "GRD003",
        policy(0.5, 0.5, 0.55, 0.58, frozen=0.98, frozen_body=True),
    ),
    "better answers are lowered": ("RLH003", agreeing(0.0, policy(0.5, 0.5, 0.6, 0.7))),
    "better answers are raised, and the optimiser climbs": (
        "LOS009",
        agreeing(1.0, policy(0.5, 0.5, 0.6, 0.7, maximizes=True)),
    ),
    "answers drawn at a temperature near 0": (
        "RLH007",
        policy(0.5, 0.6, 0.7, 0.8, columns={"temperature": 0.01}),
    ),
    "cut off, and random": (
        "RLH012",
        policy(0.5, 0.51, 0.49, 0.5, columns={"cut_off": 0.95, "equal_groups": 0.1}),
    ),
    "advantages of other rows": ("RLH013", agreeing(0.5, policy(0.5, 0.51, 0.49, 0.5))),
    "a reward that stays, with noise": ("RLH012", policy(*[0.5, 0.54, 0.46, 0.51] * 5)),
    "far from the reference at once": (
        "REF001",
        apart(4.0, policy(0.5, 0.6, 0.7, 0.8)),
    ),
    "pairs across prompts": ("PRF009", pairs(DROPOUT, {"pairs": 8.0, "split": 1.0})),
    "rewards, passed row by row, that are all equal": ("RLH001", passed_by_row(0.0)),
    "a warm-up that outlasts the training": (
        "OPT007",
        at_the_foot(policy(0.5, 0.55, 0.5, 0.5, initial_rate=1e-3)),
    ),
    "a distance that pays": ("REF004", policy(0.5, 0.5, 0.6, 0.7, columns={"beta": -0.5})),
    "answers drawn by lot": (
        "RLH007",
        policy(0.5, 0.5, 0.52, 0.5, columns={"temperature": 5.0}),
    ),
    "answers from another temperature": ("RLH009", drawn(-2.0, 1.0)),
    "no entropy where it writes": (
        "RLH007",
        closing(policy(0.5, 0.5, 0.5, 0.5), 1.2, 0.01, 0.001, 0.002),
    ),
    "a sum against a mean": ("PRF010", pairs(DROPOUT, {"pairs": 8.0, "units": 1.0})),
    "all answers are called good": (
        "PRF003",
        replace(
            pairs(DROPOUT, {}), measures={"chosen_reward": points([0.1] * 4), "kl": points([0.0])}
        ),
    ),
    "weights of pairs that nothing explains": ("REF001", weighed(0.4, 0.27)),
    "pairs turned round": ("LOS009", pairs(TURNED, {"paired": 1.0})),
    "no gradient, and rewards that differ": ("GRD002", blank(0.5, 0.5, 0.5, 0.5)),
    "no gradient, and first rewards that differ": ("GRD002", blank(0.5, 0.5, judged=0.5)),
    "no gradient, and equal rewards": ("RLH001", blank(0.5, 0.5, 0.5, 0.5, spread=0.0)),
    "no gradient, and first rewards that are equal": ("RLH001", blank(0.5, 0.5, judged=0.0)),
    "nothing is written": ("RLH014", shrinking([-0.13, -0.02, 0, 0], [2.5, 1.1, 1.0, 1.0])),
    "a margin of 500 nats": (
        "PRF007",
        pairs([250e3, 251e3, *[249e3] * 58], {"paired": 1.0, "weight": 1e3}),
    ),
    "few pairs": ("DAT021", pairs([0.69, *[0.1] * 59], {"paired": 1.0}, known_rows=KNOWN)),
    "few pairs, of which little was seen": (
        "DAT021",
        pairs([0.69, *[0.1] * 59], {"paired": 1.0}, known_rows=replace(KNOWN, values=[2.2] * 7)),
    ),
}
HEALTHY: dict[str, History] = {
    "the reward rises late": policy(0.5, 0.5, 0.51, 0.6),
    "the reward rises at once, and stays": policy(0.5, 0.8, 0.8, 0.8),
    "small steps that are enough": policy(0.5, 0.6, 0.7, 0.8, stride=1e-6),
    "only the head is trained, and learns": policy(0.5, 0.6, 0.7, 0.8, frozen_body=True),
    "an objective that is maximised": policy(0.5, 0.6, 0.7, 0.8, maximizes=True),
    "nothing more to gain": policy(0.98, 0.98, 0.98, 0.98, spread=0.1),
    "short answers that are rewarded": shrinking([0.1, 0.5, 0.7, 0.8], [5.0, 1.2, 1.0, 1.0]),
    "penalties, and answers that stay": shrinking([-0.6, -0.4, -0.2, -0.1], [5.0, 4.0, 4.0, 4.0]),
    "IPO": pairs([25.0, 24.0, *[20.0] * 58], {"paired": 1.0, "weight": 10.0}),
    "not over yet": policy(0.5, 0.5, 0.5, 0.5, total_steps=1000),
    "unknown how long": policy(0.5, 0.5, 0.5, 0.5, total_steps=None),
    "a usual beta": policy(0.5, 0.6, 0.7, 0.8, columns={"beta": 0.04, "length": 8.0}),
    "a large beta, long answers": policy(
        0.5, 0.6, 0.7, 0.8, columns={"beta": 5.0, "length": 200.0}
    ),
    "a large beta that lets the reward rise": policy(
        0.1, 0.3, 0.5, 0.7, columns={"beta": 50.0, "length": 8.0}
    ),
    "better answers are raised": agreeing(1.0, policy(0.5, 0.6, 0.7, 0.8)),
    "rewards of rows in another order": agreeing(0.5, policy(0.5, 0.6, 0.7, 0.8)),
    "rewards of rows in another order, though they rise slowly": agreeing(
        0.5, policy(*[0.5 + 0.002 * i for i in range(20)])
    ),
    "a small rise that is no chance": policy(*[0.5 + 0.002 * i for i in range(20)]),
    "a distance of the usual size": apart(0.1, policy(0.5, 0.6, 0.7, 0.8)),
    "a distance that grows": policy(0.5, 0.6, 0.7, 0.8, columns={"kl": 2.0}),
    "answers of the policy": drawn(-0.2, 1.0),
    "a high temperature, in the loss too": drawn(-2.0, 2.0),
    "entropy where it writes, now and then unknown": closing(
        policy(0.5, 0.6, 0.7, 0.8), 1.2, -1.0, 0.9, -1.0, -1.0
    ),
    "pairs of one prompt": pairs(DROPOUT, {"pairs": 8.0, "split": 0.5}),
    "a high temperature, and more reward": policy(0.2, 0.4, 0.7, 0.8, columns={"temperature": 3.0}),
    "long steps, and far more reward": stepping(1.0, policy(0.2, 0.6, 0.9, 1.0, spread=0.1)),
    "a usual temperature": policy(0.5, 0.6, 0.7, 0.8, columns={"temperature": 0.7}),
    "pairs without a reference": weighed(0.99, 0.47),
    "pairs that are weighed by data": weighed(0.4, 0.69),
    "pairs": pairs(DROPOUT, {"paired": 1.0}),
    "pairs of two epochs": pairs(
        DROPOUT, {"paired": 1.0}, known_rows=replace(KNOWN, values=[1.0, 1.0, 2.0, 2.0])
    ),
    "pairs in doubt, of which little was seen": pairs(
        DROPOUT, {"paired": 1.0}, known_rows=replace(KNOWN, values=[2.2] * 7)
    ),
    "a square, and lengths": pairs(
        [25.0, 24.9, *[20.0] * 58], {"paired": 1.0, "uneven": 0.9, "weight": 1.0}
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_named_first(name: str) -> None:
    code, history = FAULTS[name]
    findings = [finding for finding in diagnose(history) if finding.severity != "note"]
    assert [finding.code for finding in findings] == [code], [f.text() for f in findings]


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_training_gets_no_warning(name: str) -> None:
    findings = diagnose(HEALTHY[name])
    assert [finding.text() for finding in findings if finding.severity != "note"] == []


def test_a_sign_of_the_first_gradient_comes_before_the_long_steps_behind_it() -> None:
    training = stepping(1.0, agreeing(0.0, policy(0.5, 0.2, 0.1, 0.0)))
    alarms = [finding.code for finding in diagnose(training) if finding.severity != "note"]
    assert alarms == ["RLH003", "OPT005"]


@pytest.mark.parametrize(("rise", "severity"), [(0.005, None), (0.02, "note")])
def test_a_reward_that_may_have_risen_is_a_note(rise: float, severity: str | None) -> None:
    noise = [0.5, 0.51, 0.49, 0.5]
    rewards = noise * 2 + [reward + rise for reward in noise * 6]
    candidate = flat_reward(HistoryView(policy(*rewards)))
    assert candidate is not None
    assert candidate.severity == severity
