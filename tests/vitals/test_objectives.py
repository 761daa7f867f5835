"""Every objective, watched: who the model is compared with, silence, and nothing changed."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import pellucid
from pellucid import runs
from pellucid.checkpoints import load_model_tensors
from pellucid.objectives import DPO, frozen_reference
from pellucid.runs import Run
from pellucid.training import Event, StepFinished, Vitals, Watcher
from pellucid.vitals import watcher
from support import twins
from support.labelled import TINY as TINY_ENCODER
from support.labelled import write_labelled
from support.life import pretrain, tune, write_rows
from support.tiny import TINY

EVERYTHING = watcher(max_overhead=None)
REWARD = "support.life:short_and_finished"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pretrain(tmp_path_factory.mktemp("life") / "base", steps=30)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("rows"))


def distil(out: Path, teacher: Path, steps: int, **choices: Any) -> Run:
    tiny = [each for each in TINY if not each.startswith("text.tokenizer")]
    return pellucid.train(
        [teacher.parent / "base.txt"],
        objective="distill",
        teacher=teacher,
        out=out,
        steps=steps,
        settings=[*tiny, "model.context_length=96", "text.held_out=0.2"],
        show=False,
        **choices,
    )


def classify(out: Path, steps: int, **choices: Any) -> Run:
    file = write_labelled(out.parent / "labelled.tsv")
    return pellucid.train(
        [file],
        objective="classify",
        out=out,
        steps=steps,
        settings=TINY_ENCODER,
        show=False,
        **choices,
    )


STAGES: dict[str, tuple[str, dict[str, Any]]] = {
    "sft": ("sft", {}),
    "sft lora": ("sft", {"lora": 2}),
    "dpo": ("dpo", {}),
    "dpo lora": ("dpo", {"lora": 2}),
    "policy": ("policy-gradient", {"reward": REWARD}),
    "policy k3": (
        "policy-gradient",
        {"reward": REWARD, "settings": ["objective.estimator=grpo", "objective.kl=k3"]},
    ),
    "policy lora": (
        "policy-gradient",
        {"reward": REWARD, "lora": 2, "settings": ["objective.kl=k2"]},
    ),
    "distillation": ("distill", {}),
    "classification": ("classify", {}),
}


def watched(
    stage: str,
    out: Path,
    base: Path,
    file: Path,
    *,
    steps: int,
    watchers: Sequence[Watcher] = (EVERYTHING,),
) -> list[Vitals]:
    """What was told of one stage of a model's life."""
    told: list[Event] = []
    objective, choices = STAGES[stage]
    every: dict[str, Any] = {"watchers": watchers, "observers": [told.append], **choices}
    if stage == "distillation":
        distil(out, base, steps, **every)
    elif stage == "classification":
        classify(out, steps, **every)
    else:
        tune(out, objective, base, file, steps=steps, **every)
    return [event for event in told if isinstance(event, Vitals)]


def not_calm(events: Sequence[Vitals]) -> dict[str, str]:
    return {id: word for e in events for id, _, _, word, _, _ in e.signs if word != "calm"}


def last(events: Sequence[Vitals]) -> dict[str, float]:
    return {id: value for event in events for id, _, value, _, _, _ in event.signs}


def test_adapters_that_begin_at_zero_are_no_great_leap(
    base: Path, file: Path, tmp_path: Path
) -> None:
    told = watched("sft lora", tmp_path / "run", base, file, steps=20)
    assert not_calm(told) == {}


#: One stage of each objective; the others are nightly.
SAMPLE = ("sft", "dpo lora", "policy k3", "distillation", "classification")


@pytest.mark.slow
@pytest.mark.parametrize(
    "stage", [pytest.param(n, marks=() if n in SAMPLE else pytest.mark.nightly) for n in STAGES]
)
def test_every_objective_is_silent_for_a_hundred_updates(
    stage: str, base: Path, file: Path, tmp_path: Path
) -> None:
    told = watched(stage, tmp_path / "run", base, file, steps=110)
    assert not_calm(told) == {}
    assert [name for name, word in told[-1].rows if not word] == []


@pytest.mark.parametrize("stage", ["dpo lora", "policy"])
def test_a_model_is_its_reference_at_first_and_then_leaves_it(
    stage: str, base: Path, file: Path, tmp_path: Path
) -> None:
    told = watched(stage, tmp_path / "run", base, file, steps=26)
    found = last(told)
    assert found["reference.kl_start"] == 0
    assert found["reference.kl"] > 0
    assert found["reference.still"] == 0
    assert "teacher.kl" not in found
    assert not_calm(told) == {}


def test_a_teacher_is_come_nearer_to(base: Path, file: Path, tmp_path: Path) -> None:
    told = watched("distillation", tmp_path / "run", base, file, steps=30)
    distances = [value for e in told for id, _, value, _, _, _ in e.signs if id == "teacher.kl"]
    assert distances[-1] < distances[0] / 2
    assert not any(id.startswith("reference") for id in last(told))
    assert not_calm(told) == {}


def test_a_reference_that_learns_too_is_a_fault(base: Path, file: Path, tmp_path: Path) -> None:
    def shared(job: Any, tell: Any) -> Any:
        objective = job.objective
        assert isinstance(objective, DPO)
        objective.reference = frozen_reference(job.model)
        return EVERYTHING(replace(job, objective=objective), tell)

    told = watched("dpo", tmp_path / "run", base, file, steps=28, watchers=[shared])
    assert not_calm(told)["reference.still"] in ("watch", "sick")


def test_classes_have_predictions_that_move(base: Path, file: Path, tmp_path: Path) -> None:
    told = watched("classification", tmp_path / "run", base, file, steps=24)
    found = last(told)
    assert found["update.kl_forward"] > 0
    # guessing one of three classes, and not one of all tokens
    assert found["loss.value"] < 0.1
    assert "loss.learnt" not in found
    assert not_calm(told) == {}


def test_a_reward_is_asked_what_it_is_asked_without_watching(
    base: Path, file: Path, tmp_path: Path
) -> None:
    ends: list[tuple[dict[str, Any], list[tuple[str, str]]]] = []

    def press(event: Event) -> None:
        if isinstance(event, StepFinished) and event.step == 3:
            os.kill(os.getpid(), signal.SIGINT)

    for name, watchers in (("alone", ()), ("watched", (EVERYTHING,))):
        twins.ASKED.clear()
        out = tmp_path / name
        with pytest.raises(pellucid.errors.Interrupted):
            tune(
                out,
                "policy-gradient",
                base,
                file,
                steps=6,
                reward="support.twins:noted",
                observers=[press],
                watchers=watchers,
            )
        runs.resume(out, reward="support.twins:noted", watchers=watchers, show=False)
        ends.append((load_model_tensors(out / "checkpoints" / "step-6"), list(twins.ASKED)))
    (alone, asked), (seen, asked_too) = ends
    assert asked == asked_too
    assert all(torch.equal(alone[name], seen[name]) for name in alone)
