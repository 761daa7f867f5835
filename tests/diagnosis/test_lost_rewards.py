"""Policies that lost their rewards, references that are not the start, and sound ones like them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pellucid.diagnosis import Facts, History, Reading, diagnose
from pellucid.vitals import Mark

COIN = math.log(2)
#: More updates than any cause asks for.
UPDATES = 60


def points(values: Sequence[float], gap: int = 1) -> tuple[tuple[int, float], ...]:
    return tuple((gap * (i + 1), value) for i, value in enumerate(values))


def mark(value: float, first: int = 1, n: int = UPDATES) -> Mark:
    """A mark that shows in all updates from the first one on."""
    steps = list(range(first, n + 1))
    return Mark(len(steps), n, first, [value] * len(steps), steps)


def history(
    objective: str,
    losses: Sequence[float] = (),
    columns: Mapping[str, Sequence[float]] | None = None,
    signs: Mapping[str, float] | None = None,
    marks: Mapping[str, Mark] | None = None,
    rates: Sequence[float] = (),
    norms: Sequence[float] = (),
    gap: int = 1,
    **facts: Any,
) -> History:
    settings: dict[str, Any] = {"objective": objective, "pretrained": True} | facts
    return History(
        name=objective,
        losses=points(losses),
        rates=points(rates),
        grad_norms=points(norms),
        facts=Facts(**settings),
        signs={id: (Reading(1, value, "calm"),) for id, value in (signs or {}).items()},
        measures={name: points(values, gap) for name, values in (columns or {}).items()},
        marks=marks or {},  # pyright: ignore[reportArgumentType]
    )


def rewarded(rewards: Sequence[float], **options: Any) -> History:
    """A policy whose groups have a spread where there is any reward."""
    columns = {"reward": rewards, "reward_spread": [2 * reward for reward in rewards]}
    return history("rewards", columns=columns, **options)


def weighed(weight: float, first: float = 1.09) -> History:
    """Pairs of one weight on average, some of which weigh a quarter more than others."""
    signs = {"paired": 1.0, "uneven": 0.25, "weight": weight, "explained": 0.67}
    losses = [first, 0.95, *[0.8] * (UPDATES - 2)]
    return history("preferences", losses, signs={f"answers.{k}": v for k, v in signs.items()})


def referred(rewards: Sequence[float]) -> History:
    """Pairs whose answers have these rewards, in steps that move the weights."""
    columns = {"chosen_reward": rewards, "rejected_reward": [-reward for reward in rewards]}
    losses = [0.69] * UPDATES
    return history("preferences", losses, columns=columns, marks={"stride": mark(1e-3)})


def scored(*first: float) -> History:
    """A model of rewards, with these first losses."""
    losses = [*first, *[0.4] * UPDATES]
    return history("preferences", losses, signs={"answers.lowered": 0.5, "answers.paired": 1.0})


def ratios(late: float, objective: str = "rewards") -> History:
    """A policy whose advantages are about 0.6, and whose loss ends so high."""
    losses = [0.0, -0.1, 0.1, *[late * i / UPDATES for i in range(UPDATES)]]
    signs = {"answers.weight": 0.037}
    return history(objective, losses, columns={"length": [8.0, 7.9] * 5}, signs=signs)


GONE = [0.06, 0.12, 0.06, *[0.0] * 17]
BACK = [0.0, 0.1, -0.2, 0.4, 0.3, -0.3, 0.2, 0.2, 0.1, 0.1, 0.01, 1e-3]
FAULTS: dict[str, tuple[str, History]] = {
    "rewards at the start alone": ("RLH003", rewarded(GONE)),
    "answers that became copies": ("RLH007", rewarded(GONE, marks={"copies": mark(0.9, 8)})),
    "a loss that advantages cannot make": ("RLH009", ratios(60.0)),
    "rewards that come back to 0": ("REF002", referred(BACK)),
    "a reference that was trained on": ("REF001", weighed(0.057)),
    "scores of a large head": ("INI005", scored(3.2, 0.9, 9.3, 1.2, 2.1)),
    "a step that leaves nothing of a policy": (
        "OPT005",
        rewarded([0.7] * 20, signs={"update.ratio": 1.3}, rates=[0.05] * 20),
    ),
    "a full rate that leaves nothing": (
        "OPT005",
        history(
            "preferences",
            [0.7] * UPDATES,
            signs={"update.ratio": 0.06, "update.kl_forward": 0.9},
            rates=[0.002, 0.01, *[0.06] * 58],
            betas=(0.9, 0.999),
        ),
    ),
    "parts of an update that add up": (
        "LOS007",
        history(
            "preferences", [2 * COIN] * 5, columns={"margin": [0.0] * 5}, marks={"parts": mark(2)}
        ),
    ),
}
CLIPPED: dict[str, Any] = {
    "betas": (0.9, 0.999),
    "eps": 1e-8,
    "remembered_step": 0.25,
    "clip_norm": 1.0,
}
HEALTHY: dict[str, History] = {
    "rewards that come now and then": rewarded([0.06, 0.0] * 10),
    "rewards of pairs that stay": referred([*BACK[:-2], 0.2, 0.3]),
    "weights of pairs, and a round beta": weighed(0.1 * 1.09 / (2 * COIN)),
    "a margin of 3 within the loss": scored(3.05, 3.1, 3.0, 2.9, 2.6),
    "scores of a usual head": scored(0.67, 1.1, 0.99, 0.6, 0.43),
    "two terms a pair": history("preferences", [2 * COIN] * 5, columns={"margin": [0.0] * 5}),
    "a loss of a policy that rises": ratios(3.0),
    "adapters that move by their own size": rewarded(
        [0.1 + 0.03 * i for i in range(20)],
        frozen=0.98,
        marks={"stride": mark(0.06)},
        rates=[1e-3] * UPDATES,
        signs={"update.ratio": 0.02},
    ),
    "rewards after steps of a warm-up": history(
        "preferences",
        [0.7] * UPDATES,
        columns={"chosen_reward": [-4.0, -3.9, -5.0], "chosen_logp": [-90.0, -99.0, -97.0]},
        rates=[0.002 * min(i, 6) for i in range(UPDATES)],
        gap=5,
    ),
    "clipped gradients of Adam, after a rate of 0": history(
        "preferences",
        [25.0 - 0.1 * i for i in range(UPDATES)],
        signs={"update.effective_step": math.nan, "gradient.clipped": 1.0},
        norms=[50.0] * UPDATES,
        **CLIPPED,
    ),
    "clipped gradients of Adafactor": history(
        "preferences",
        [25.0 - 0.1 * i for i in range(UPDATES)],
        signs={"gradient.clipped": 1.0},
        norms=[50.0] * UPDATES,
        clip_norm=1.0,
    ),
    "one side is always longer": history(
        "preferences",
        [0.69, *[0.01] * 59],
        signs={"answers.longer": 0.0, "answers.pairs": 12.0},
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_lost_reward_or_reference_is_the_first_cause(name: str) -> None:
    code, training = FAULTS[name]
    findings = [finding for finding in diagnose(training) if finding.severity != "note"]
    assert [finding.code for finding in findings][:1] == [code]


@pytest.mark.parametrize("name", HEALTHY)
def test_sound_training_like_it_raises_no_alarm(name: str) -> None:
    alarms = [f.text() for f in diagnose(HEALTHY[name]) if f.severity != "note"]
    assert alarms == []


def test_short_first_steps_are_no_underflow_if_gradients_are_not_zero() -> None:
    readings = tuple(Reading(step, 1e-3, "calm") for step in (1, 3, 5, 7))
    signs = {"update.effective_step": readings, "gradient.zeros": (Reading(1, 0.0, "calm"),)}
    facts = Facts(betas=(0.9, 0.999), eps=1e-8, frozen=0.0)
    assert "NUM009" not in {f.code for f in diagnose(History(name="", facts=facts, signs=signs))}
    signs["gradient.zeros"] = (Reading(1, 0.8, "calm"),)
    assert "NUM009" in {f.code for f in diagnose(History(name="", facts=facts, signs=signs))}
