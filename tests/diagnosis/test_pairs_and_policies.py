"""Exchanged sides, references that are not the start, charged distances: and sound ones alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from pellucid.diagnosis import Finding, History, diagnose
from pellucid.vitals import Mark
from support.pair_histories import UPDATES, history, mark

COIN = math.log(2)


def pairs(chosen: Sequence[float], rejected: Sequence[float], **signs: float) -> History:
    columns = {"chosen_reward": chosen, "rejected_reward": rejected}
    named = {f"answers.{name}": value for name, value in signs.items()}
    return history("preferences", columns=columns, signs=named)


def charged(beta: float, noise: float = 0.0) -> History:
    """A policy whose loss is beta times its distance, and whose rewards stay."""
    distances = [0.03 + 0.01 * (i % 3) for i in range(UPDATES)]
    losses = [beta * d + noise * (-1) ** i for i, d in enumerate(distances)]
    columns = {
        "kl": distances,
        "reward": [0.5, 0.55] * (UPDATES // 2),
        "reward_spread": [0.3] * UPDATES,
        "length": [10.0] * UPDATES,
    }
    return history("rewards", losses, columns, total_steps=UPDATES)


def coin(noise: float) -> History:
    losses = [COIN + noise * (-1) ** step for step in range(120)]
    return history("preferences", losses, signs={"answers.uneven": 0.0})


def known_pairs(end: float) -> History:
    losses = [max(end, 0.69 - 0.02 * step) for step in range(UPDATES)]
    return history("preferences", losses, marks={"known_rows": mark(8.0, 20)})


def known_pairs_in_rows(*ends: float) -> History:
    """A log with one row for ten updates."""
    rows = zip((10, 20, 30, 40, 50), (0.61, 0.58, 0.4, *ends), strict=True)
    return replace(known_pairs(0.5), losses=tuple(rows))


def guessed(start: float, **columns: Sequence[float]) -> History:
    """Pairs of a trained model whose loss ends above ln 2, after a long way."""
    losses = [start, *[0.75] * (UPDATES - 1)]
    options: dict[str, Any] = {"columns": columns, "marks": {"stride": mark(8e-3)}}
    return history("preferences", losses, betas=None, momentum=0.9, **options)


def tuned(losses: Sequence[float], stride: float = 0.01) -> History:
    options: dict[str, Any] = {"marks": {"stride": mark(stride)}, "vocab_size": 1000}
    return history(None, losses, pretrained=None, betas=(0.9, 0.999), **options)


def parts(objective: str | None) -> History:
    marks = {"parts": mark(2.0), "outputs": mark(2.4)}
    return history(objective, [3.0] * UPDATES, marks=marks, pretrained=None)


def cut_off(share: float) -> History:
    n = 30
    blank = Mark(n, n, 1, [0.0] * n, list(range(1, n + 1)))
    columns = {"reward": [0.1, 0.2] * 15, "reward_spread": [0.3] * n, "cut_off": [share] * n}
    return history("rewards", [0.0] * n, columns, marks={"blank": blank})


def rising(tokens: float) -> History:
    """A policy whose reward rises, and whose answers all end at a limit of so many tokens."""
    columns = {"reward": [0.1 * i for i in range(9)], "cut_off": [0.99] * 9, "length": [tokens] * 9}
    return history("rewards", [0.0] * 9, columns)


def advantages(first: float) -> History:
    """A policy whose loss grows, and whose first answers differ so much in reward."""
    losses = [0.0, -0.1, 0.1, *[60.0 * i / UPDATES for i in range(UPDATES)]]
    columns = {"length": [8.0, 7.9] * 5, "reward_spread": [first, *[0.3] * 9]}
    return history("rewards", losses, columns, signs={"answers.weight": 0.037})


FALLING = [4.6, *[4.0] * 9]
RISING = [*FALLING, *[4.9, 4.8] * 8, *[4.3] * 20]
FOREIGN = {"paired": 1.0, "uneven": 0.2, "explained": 0.4}
SQUARED = {"paired": 1.0, "uneven": 0.2, "explained": 1.0}
FAULTS: dict[str, tuple[str, str, History]] = {
    "policy's sides exchanged": (
        "PRF004",
        "policy's two sides",
        pairs([-1.7, -1.4, 1.0], [1.7, 1.4, -1.0], first=0.0),
    ),
    "reference's sides exchanged": (
        "REF001",
        "for its reference",
        pairs([-1.7, -1.4, 1.0], [1.7, 1.4, -1.0], first=1.0),
    ),
    "another reference": ("REF001", "differ in weight", pairs([1.2] * 9, [1.1] * 9, **FOREIGN)),
    "a beta that the loss shows": ("REF005", "beta = 50", charged(50.0)),
    "a level coin": ("PRF001", "0.69", coin(0.003)),
    "pairs by heart, in a short log": ("DAT021", "", known_pairs_in_rows(0.02, 0.01)),
    "pairs by heart": ("DAT021", "", known_pairs(0.05)),
    "pairs that are guessed after a long way": ("OPT005", "guessed", guessed(0.69)),
    "a loss that rises at speed": ("OPT005", "0.8", tuned(RISING)),
    "parts of tokens": ("LOS007", "2.4", parts(None)),
    "cut answers are left out": ("RLH002", "leaves these out", cut_off(1.0)),
    "answers of one token": ("RLH002", "No answer is longer", rising(1.0)),
    "advantages that were known": ("RLH009", "43.5", advantages(0.3)),
}
HEALTHY: dict[str, History] = {
    "answers of two tokens": rising(2.0),
    "a start of two rewards": pairs([0.01, 0.2, 0.4], [-0.01, -0.2, -0.4], first=1.0),
    "rewards of another size": pairs([1.7, 1.8, 1.9], [-1.6, -1.7, -1.8], first=1.0),
    "weights of the loss's own, and no margin": history(
        "preferences",
        [2.78, 2.65, *[0.4] * (UPDATES - 2)],
        columns={
            "chosen_reward": [-1e-7, -0.1, *[-6.0] * 9],
            "rejected_reward": [0.0, -1, *[-18] * 9],
            "margin": [-1e-7, 0.9, *[12.0] * 9],
        },
        signs={f"answers.{name}": n for name, n in (FOREIGN | {"weight": 0.1}).items()},
    ),
    "no reference": pairs([-7.8] * 9, [-7.9] * 9, **SQUARED),
    "no reference, in a warm-up": history(
        "preferences",
        columns={"chosen_reward": [-7.8] * 9, "rejected_reward": [-7.9] * 9},
        signs={f"answers.{name}": value for name, value in SQUARED.items()},
        rates=[1e-4 * i for i in range(UPDATES)],
    ),
    "small rewards of another reference": pairs([0.8] * 9, [0.7] * 9, **FOREIGN),
    "pairs that are learnt slowly": coin(0.02),
    "pairs that came again, in a short log": known_pairs_in_rows(0.3, 0.1),
    "another loss than that of guessing": guessed(0.88),
    "margins that grew, in a loss with a term of its own": guessed(
        0.7, margin=[0.0, *[1.5] * 9], accuracy=[0.5, *[0.9] * 9]
    ),
    "pairs that came again": known_pairs(0.3),
    "a loss that rises at small steps": tuned(RISING, 1e-3),
    "a loss that rises a little": tuned([*FALLING, *[4.2] * 40]),
    "parts of pairs": parts("preferences"),
    "first answers of one reward": advantages(0.0),
}


def alarms(training: History) -> list[Finding]:
    return [finding for finding in diagnose(training) if finding.severity != "note"]


def test_scores_of_a_new_head_may_be_learnt_slowly() -> None:
    losses = [COIN + 2e-3 * (-1) ** step for step in range(120)]
    scores = history("preferences", losses, signs={"answers.lowered": 0.5})
    assert [(f.code, f.severity) for f in diagnose(scores)] == [("PRF001", "note")]


def won(*margins: float) -> list[str]:
    columns = {"margin": margins, "accuracy": [0.3] * len(margins)}
    return [finding.code for finding in alarms(history("preferences", columns=columns))]


def test_margins_below_0_by_chance_are_no_rejected_answers_that_win() -> None:
    falling = [0.5 - 0.1 * row for row in range(16)]
    assert won(*falling) == ["PRF004"]
    assert won(*[margin + 2.0 * (-1) ** row for row, margin in enumerate(falling)]) == []


@pytest.mark.parametrize(("margin", "codes"), [(9.0, []), (25.0, ["PRF006"])])
def test_easy_pairs_are_a_note(margin: float, codes: list[str]) -> None:
    columns = {"margin": [margin] * 10, "accuracy": [1.0] * 10}
    training = history("preferences", [0.6, *[0.0] * 59], columns)
    assert [finding.code for finding in alarms(training) if finding.code == "PRF006"] == codes


@pytest.mark.parametrize("name", FAULTS)
def test_the_first_cause_is_named(name: str) -> None:
    code, words, training = FAULTS[name]
    findings = alarms(training)
    assert [finding.code for finding in findings][:1] == [code]
    assert words in findings[0].what


@pytest.mark.parametrize("name", HEALTHY)
def test_what_only_looks_like_it_raises_no_alarm(name: str) -> None:
    assert [finding.text() for finding in alarms(HEALTHY[name])] == []


@pytest.mark.parametrize("beta", [0.5, -50.0])
def test_a_small_beta_and_a_reward_for_distance_do_not_hold_the_policy(beta: float) -> None:
    assert "REF005" not in [finding.code for finding in diagnose(charged(beta))]


def test_a_loss_with_a_term_of_its_own_shows_no_beta() -> None:
    assert "REF005" not in [finding.code for finding in diagnose(charged(50.0, noise=2.0))]


def scores(first: float, signs: Mapping[str, float]) -> list[str]:
    """The codes of pairs whose rewards begin at a number and end near 0."""
    rewards = [first, *[2.0, 3.0] * 5, 0.01, 0.01]
    columns = {"chosen_reward": rewards, "rejected_reward": [0.5 * r for r in rewards]}
    options: dict[str, Any] = {"marks": {"stride": mark(1e-3)}, "signs": signs}
    return [
        finding.code for finding in diagnose(history("preferences", columns=columns, **options))
    ]


def test_scores_of_a_reward_model_come_back_to_0_without_a_reference() -> None:
    of_answers = {"answers.lowered": 0.5, "answers.uneven": 0.0}
    assert "REF002" in scores(0.1, of_answers)
    assert "REF002" not in scores(3.0, of_answers)
    assert "REF002" not in scores(0.1, {"answers.lowered": 0.5})


@pytest.mark.parametrize(("n", "code"), [(1, "PRF003"), (0, "GRD002")])
def test_answers_of_one_text_have_no_gradient_and_are_named(n: int, code: str) -> None:
    signs = {"answers.equal": float(n), "answers.tail": 0.0}
    (finding, *_) = alarms(history(None, [COIN] * 40, signs=signs, marks={"blank": mark(0.0)}))
    assert finding.code == code


@pytest.mark.parametrize(("scale", "severity"), [(4.0, "warn"), (0.25, "note")])
def test_narrow_heads_are_no_sign_of_scores_that_are_too_small(scale: float, severity: str) -> None:
    signs = {"attention.max_logit": 9.0, "attention.entropy": 0.2}
    findings = diagnose(history(None, [3.0] * 20, signs=signs, score_scale=scale))
    assert [f.severity for f in findings if f.code in ("ARC006", "ARC007")] == [severity]


@pytest.mark.parametrize(("paid", "codes"), [(0.5, ["LOS010"]), (0.35, []), (None, ["LOS010"])])
def test_a_loss_with_a_weight_does_not_count_ignored_places(
    paid: float | None, codes: list[str]
) -> None:
    signs = {"loss.probe": 6.0, "targets.single": 1.0, "targets.weight": 0.52}
    signs |= {} if paid is None else {"targets.counted": paid}
    training = history(None, [3.0] * 20, signs=signs, pretrained=None)
    assert [f.code for f in diagnose(training) if f.code == "LOS010"] == codes


@pytest.mark.parametrize(
    ("optimiser", "losses", "severity"),
    [("SGD", [0.7] * 60, "warn"), ("AdamW", [0.7] * 60, "note"), ("SGD", None, "note")],
)
def test_a_loss_that_is_divided_makes_steps_of_plain_descent_shorter(
    optimiser: str, losses: list[float] | None, severity: str
) -> None:
    losses = losses or [0.75 * math.exp(-i / 20) for i in range(60)]
    signs = {"loss.probe": 6.0, "targets.single": 1.0, "targets.weight": 0.12}
    signs |= {"targets.counted": 1.0, "targets.smoothing": 0.0}
    training = history(None, losses, signs=signs, pretrained=None, optimiser=optimiser)
    assert [f.severity for f in diagnose(training) if f.code == "LOS007"] == [severity]
