"""Readings that fit a fault as well as a sound training: a note says what would decide it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from pellucid.diagnosis import Facts, Finding, History, Reading, diagnose
from pellucid.vitals import Mark

STEPS = list(range(1, 41))


def run(
    signs: dict[str, float] | None = None,
    *,
    rewards: tuple[float, ...] = (),
    stride: float = 1e-3,
    losses: tuple[float, ...] = (),
    **facts: Any,
) -> History:
    """A training of 40 updates that goes well as far as its records say."""
    return History(
        name="run",
        losses=tuple(enumerate(losses, start=1)),
        rates=tuple((step, 1e-3) for step in STEPS),
        facts=Facts(**({"pretrained": True, "total_steps": 40} | facts)),
        measures={"reward": tuple((10 * i, value) for i, value in enumerate(rewards, start=1))},
        signs={id: (Reading(1, value, "calm"),) for id, value in (signs or {}).items()},
        marks={"stride": Mark(40, 40, 1, [stride] * 40, STEPS)},
    )


def of_rewards(**options: Any) -> History:
    return run(**({"objective": "rewards"} | options))


def of_pairs(stranger: float, gap: float) -> History:
    signs = {"stranger": stranger, "gap": gap, "pairs": 8.0, "first": 1.0, "paired": 1.0}
    losses = (0.69, *[0.5] * 39)
    return run(
        {f"answers.{n}": v for n, v in signs.items()}, objective="preferences", losses=losses
    )


def own_ratio() -> History:
    signs = {"paired": 1.0, "uneven": 0.9, "weight": 0.02, "explained": 1.0}
    named = {f"answers.{name}": value for name, value in signs.items()}
    return run(named, objective="preferences", losses=(0.47, 1.1, *[0.5] * 38))


def of_answers(prompts: float, answers: float) -> History:
    signs = {"targets.prompt_nats": prompts, "targets.answer_nats": answers}
    return run(signs, losses=(answers, *[2.0] * 39), vocab_size=512)


def of_prompts(prompts: float, trained: float = 1.0) -> History:
    signs = {"targets.prompt_nats": prompts, "weights.trained": trained}
    return run(signs, objective="preferences", losses=(0.69, *[0.5] * 39), vocab_size=512)


OWN = {"answers.own": 1.0, "answers.level": 1.0, "answers.lowered": 0.5}
UNDECIDED: dict[str, tuple[str, History]] = {
    "penalties, or a reward turned round": (
        "above 0",
        of_rewards(rewards=(-0.5, -0.4, -0.3, -0.2)),
    ),
    "it climbs, and passes no rewards": ("maximize", of_rewards(maximizes=True)),
    "small steps without rewards": ("compare with ten times", of_rewards(stride=1e-6)),
    "chosen answers are strange": ("Read ten pairs", of_pairs(0.875, 0.4)),
    "pairs weigh by the model's own log ratio": ("SimPO", own_ratio()),
    "own answers are all lowered": ("baseline", of_rewards(signs={"answers.lowered": 1.0})),
    "own answers all weigh the same": (
        "advantage of each row",
        of_rewards(signs={"answers.own": 1.0, "answers.level": 0.0}),
    ),
    "own answers without rewards": ("Pass the reward of each answer", of_rewards(signs=OWN)),
    "short steps of plain descent": (
        "take Adam",
        of_rewards(rewards=(0.2, 0.3, 0.4, 0.5), stride=4e-5, momentum=0.0),
    ),
    "prompts of other ids": ("another tokenizer", of_prompts(9.4)),
    "answers of another form": ("template", of_answers(3.5, 5.5)),
}
SILENT: dict[str, History] = {
    "prompts that a trained model guesses": of_prompts(6.6),
    "prompts that a new model finds strange": of_prompts(9.4, trained=0.0),
    "rewards": of_rewards(rewards=(0.2, 0.3, 0.4, 0.5)),
    "rewards of both signs": of_rewards(rewards=(-0.2, 0.1, 0.4, 0.5)),
    "it climbs, and the reward rises": of_rewards(rewards=(0.2, 0.5, 0.7, 0.9), maximizes=True),
    "usual steps without rewards": of_rewards(),
    "own answers, raised and lowered, and their rewards": of_rewards(
        rewards=(0.2, 0.3, 0.4, 0.5), signs=OWN
    ),
    "short steps of Adam": of_rewards(
        rewards=(0.2, 0.3, 0.4, 0.5), stride=4e-5, betas=(0.9, 0.99), eps=1e-8
    ),
    "chosen answers are likely": of_pairs(0.25, -0.4),
    "chosen answers are a little strange": of_pairs(0.625, 0.05),
    "answers as likely as prompts": of_answers(3.5, 3.2),
    "new weights": of_answers(6.2, 6.3),
}


def undecided(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.code == "UNK002"]


@pytest.mark.parametrize("name", UNDECIDED)
def test_note_says_what_would_decide_it(name: str) -> None:
    words, history = UNDECIDED[name]
    findings = diagnose(history)
    (finding,) = undecided(findings)
    assert words in finding.text()
    assert {f.severity for f in findings} == {"note"}


@pytest.mark.parametrize("name", SILENT)
def test_usual_readings_get_no_note(name: str) -> None:
    assert undecided(diagnose(SILENT[name])) == []


def test_nothing_is_left_open_where_a_cause_is_named() -> None:
    history = of_pairs(0.875, 0.4)
    turned = replace(history, losses=tuple((s, -math.log(2) - 0.01 * s) for s in STEPS))
    findings = diagnose(turned)
    assert [f.code for f in findings if f.severity != "note"] == ["LOS009"]
    assert undecided(findings) == []


def test_loud_start_on_answers_names_no_weights() -> None:
    history = run(losses=(8.1, *[4.0] * 39), vocab_size=512)
    loud = replace(history, facts=replace(history.facts, pretrained=None))
    assert {f.code for f in diagnose(loud)} >= {"INI001"}
    answers = replace(loud, facts=replace(loud.facts, has_prompts=True))
    codes = [f.code for f in diagnose(answers) if f.severity != "note"]
    assert codes == ["UNK001"]
