"""Trainings on pairs and on rewards, as plain loops: what their gradients show is named."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pellucid.vitals import Watch, watch
from support.nightly import sampled
from support.post_training import (
    EOS,
    PROMPT,
    Loop,
    compared,
    dpo,
    grpo,
    named,
    new_model,
    packed,
    policy,
    scorer,
    sft,
    vowels,
)


def itself(model: nn.Module) -> nn.Module:
    return model


def nothing(ids: Tensor) -> Tensor:
    return torch.zeros(len(ids))


def logged(**columns: tuple[float, float]) -> Loop:
    """A loop that also passes numbers; each goes from its start to its end, and stays there."""

    def of_update(model: Any, reference: Any, step: int, w: Watch) -> Tensor:
        share = min(1.0, step / 15)
        w.log({n.replace("__", "/"): a + (b - a) * share for n, (a, b) in columns.items()})
        return compared(model, reference, step, w)

    return short(of_update, model=scorer, rate=3e-3)


def short(loss: Callable[..., Tensor], **options: Any) -> Loop:
    return Loop(loss, updates=30, **options)


def paid_for(model: Any, reference: Any, step: int, w: Watch) -> Tensor:
    """A policy whose loss falls with its distance from the reference."""
    distance = 0.1 * (step + 1)
    w.log({"reward": 0.1, "kl": distance})
    policy = grpo(model, reference, step, w)
    return policy - policy.detach() - 0.5 * distance


def logged_zero() -> Loop:
    columns = ("rewards__chosen", "rewards__rejected", "rewards__margins")
    return logged(**dict.fromkeys(columns, (0.0, 0.0)))


def frozen_head() -> nn.Module:
    model = scorer()
    nn.init.zeros_(model.head.weight).requires_grad_(False)
    nn.init.zeros_(model.head.bias).requires_grad_(False)
    return model


def partial_renewal() -> Callable[..., Tensor]:
    """A loss of pairs whose reference takes the weights of the model in every fifth update."""
    copies: list[nn.Module] = []

    def of_update(model: Any, reference: Any, step: int, w: Watch) -> Tensor:
        if step % 5 == 0:
            copies[:] = [copy.deepcopy(model).requires_grad_(False)]
        return dpo(model, copies[0], step, w)

    return of_update


FAULTS: dict[str, tuple[str, Loop]] = {
    "the reference is the model": ("PRF001", short(dpo, reference=itself)),
    "the reference has other weights": ("REF001", short(dpo, reference=lambda _: new_model())),
    "beta far too large": ("PRF007", short(partial(dpo, beta=100.0))),
    "beta far too small": ("PRF007", short(partial(dpo, beta=1e-6))),
    "beta far too small, in two calls": (
        "PRF007",
        short(partial(dpo, beta=1e-6, at_once=False)),
    ),
    "one score for all": ("PRF001", short(compared, model=frozen_head)),
    "rows cut where answers begin": (
        "PRF003",
        short(partial(compared, length=PROMPT), model=scorer, rate=3e-3),
    ),
    "rejected wins": (
        "PRF004",
        logged(rewards__margins=(0, -3), rewards__accuracies=(0.5, 0.1)),
    ),
    "both unlikely": (
        "PRF005",
        logged(logps__chosen=(-250, -900), rewards__chosen=(0, -65)),
    ),
    "both unlikely, without their log P": (
        "PRF005",
        logged(rewards__chosen=(0, -6), rewards__rejected=(0, -7), rewards__margins=(0, 1)),
    ),
    "the reference becomes the model again": ("REF002", short(partial_renewal())),
    "the distance stays 0": ("REF002", logged(reward=(0.1, 1.0), kl=(0.0, 0.0))),
    "end tokens are not paid for": ("DAT005", short(partial(sft, unpaid=EOS), model=named)),
    "the loss pays for a template": ("LOS017", short(partial(sft, template=10), model=named)),
    "labels that stop before the answer": (
        "LOS018",
        short(partial(sft, paid=slice(PROMPT)), model=named),
    ),
    "packed texts see each other": ("ATT004", short(partial(packed, ends=False), model=named)),
    "documents that positions set apart see each other": (
        "ATT004",
        short(partial(packed, restarts=True, pays_prompts=True), model=named),
    ),
    "answers known before": ("LOG016", short(sft, model=partial(named, known=12.0))),
    "no answer is better": ("RLH001", short(partial(grpo, reward=nothing))),
    "one answer again and again": ("RLH001", short(partial(grpo, temperature=0.01))),
    "answers to different prompts compared": ("RLH010", Loop(partial(grpo, tiled=True), updates=3)),
    "prompts are trained too": ("RLH011", Loop(partial(grpo, start=1), updates=3)),
    "pairs the other way round": ("PRF004", short(partial(dpo, swapped=True, pairs=8))),
    "scores the other way round": (
        "PRF004",
        short(partial(compared, pairs=8, sign=-1.0), model=scorer, rate=3e-3),
    ),
    "steps so large that order is lost": ("RLH007", Loop(grpo, rate=0.05, updates=51)),
    "reward falls": ("RLH003", logged(reward=(1.0, 0.1))),
    "far from its reference": ("REF003", logged(reward=(0.1, 1.0), kl=(0.0, 60.0))),
    "the distance is paid for": ("REF004", short(paid_for)),
    "the reference is renewed": ("REF002", logged_zero()),
    "cut off": ("RLH002", logged(reward=(0.1, 1.0), clipped_ratio=(1.0, 1.0))),
    "entropy collapses": ("RLH007", logged(reward=(0.1, 1.0), entropy=(1.0, 0.001))),
    "length runs away": (
        "RLH008",
        logged(reward=(0.5, 0.5), completion_length=(200, 2000)),
    ),
}


@pytest.mark.parametrize("name", sampled(FAULTS, 2))
def test_fault_of_a_loop_on_answers_is_named(name: str) -> None:
    code, loop = FAULTS[name]
    findings, w = loop.run()
    assert w.guard.off == {}
    assert code in {finding.code for finding in findings}, [f.text() for f in findings]


HEALTHY: dict[str, Loop] = {
    "pairs": short(dpo, max_overhead=0.02),
    "pairs in two calls": short(partial(dpo, at_once=False)),
    "a large beta": short(partial(dpo, beta=1.0)),
    "pairs at a small rate": short(dpo, rate=1e-5),
    "eight pairs": short(partial(dpo, pairs=8)),
    "eight scores": short(partial(compared, pairs=8), model=scorer, rate=3e-3),
    "scores": short(compared, model=scorer, rate=3e-3),
    "rewards": short(grpo),
    "answers of their own length": short(sft, model=named),
    "packed with an end between": short(packed, model=named),
    "packed as in pre-training": short(partial(packed, pays_prompts=True), model=named),
    "the answer alone is paid for": short(partial(sft, paid=slice(PROMPT, None)), model=named),
    "a short template": short(partial(sft, template=3), model=named),
    "rewards with columns": (
        logged(
            reward=(0.1, 0.5),
            kl=(0.0, 0.1),
            entropy=(1.0, 0.6),
            completion_length=(200, 260),
            clipped_ratio=(0.1, 0.05),
        )
    ),
    "pairs with columns": (
        logged(
            rewards__margins=(0, 2),
            rewards__accuracies=(0.5, 0.8),
            rewards__chosen=(0, 0.5),
            logps__chosen=(-250, -245),
        )
    ),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_loop_on_answers_gets_no_warning(name: str) -> None:
    findings, w = HEALTHY[name].run()
    assert w.guard.off == {}
    assert [finding.text() for finding in findings if finding.severity != "note"] == []


def signs_of(loop: Loop) -> dict[str, float]:
    _, w = loop.run()
    return {sign.id: sign.value for sign in w.signs if sign.id.startswith("answers.")}


def test_first_gradient_of_pairs_weighs_half_of_beta() -> None:
    for at_once in (True, False):
        signs = signs_of(Loop(partial(dpo, beta=0.3, at_once=at_once), updates=2))
        assert signs["answers.paired"] == 1
        assert signs["answers.lowered"] == 0.5
        assert signs["answers.weight"] == pytest.approx(0.15, rel=1e-3)
        assert signs["answers.uneven"] < 1e-3
        assert "answers.own" not in signs


def test_policy_that_trains_on_its_own_answers_is_known_by_their_prompts() -> None:
    signs = signs_of(Loop(partial(grpo, reward=vowels), updates=2))
    assert signs["answers.own"] == 1
    assert 0.2 < signs["answers.lowered"] < 0.8


def test_rewards_that_a_loop_logs_after_its_step_are_those_of_the_update() -> None:
    earned: list[Tensor] = []

    def rewarded(ids: Tensor) -> Tensor:
        earned.append(vowels(ids))
        return earned[-1]

    model = policy()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    with watch(model, optimizer) as w:
        for step in range(2):
            loss = grpo(model, model, step, w, reward=rewarded)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            w.step(loss)
            w.log({"rewards": earned[-1]})
    signs = {sign.id: sign.value for sign in w.signs}
    assert signs["answers.agreement"] == 1
    assert signs["answers.rows"] == 16


def test_numbers_of_the_loop_are_kept_by_their_names() -> None:
    def loss(model: Any, reference: Any, step: int, w: Watch) -> Tensor:
        w.log({"reward": torch.tensor([step, step + 1.0]), "kl": 0.5})
        return grpo(model, reference, step, w)

    _, w = Loop(loss, updates=3).run()
    points = w.judge.record.logged["reward"].points
    assert [(point.step, point.value) for point in points] == [(1, 0.5), (2, 1.5), (3, 2.5)]
    assert [point.value for point in w.judge.record.logged["kl"].points] == [0.5] * 3
