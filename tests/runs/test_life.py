"""The life of a decoder, run by run: answering, preferring, being rewarded; refused and resumed."""

from __future__ import annotations

import math
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

import pellucid
from pellucid import runs
from pellucid.checkpoints import load
from pellucid.errors import ConfigError, Interrupted, NonFiniteError
from pellucid.objectives import open_reference
from pellucid.runs import RunFolder, read_events, verify_resume
from pellucid.runs.prepare import open_data
from pellucid.runs.verify import resume_until
from pellucid.tasks import TaskInputs
from pellucid.tasks.rollouts import reference_model
from pellucid.training import (
    Evaluated,
    Event,
    Logged,
    Sampled,
    Started,
    StepFinished,
)
from support.life import pretrain, rows, tune, write_rows

REWARD = "support.life:short_and_finished"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pretrain(tmp_path_factory.mktemp("life") / "base")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("rows"))


def events_of(folder: Path) -> list[Event]:
    return read_events(RunFolder(folder).metrics)


def measures_at(folder: Path, step: int) -> dict[str, float]:
    (found,) = (e for e in events_of(folder) if isinstance(e, Evaluated) and e.step == step)
    return {"loss_nats": found.loss_nats, **dict(found.measures)}


def first_update(folder: Path) -> dict[str, float]:
    """The parts of the first update's loss."""
    logged = next(e for e in events_of(folder) if isinstance(e, Logged))
    return {"loss_nats": logged.losses[0], **{name: values[0] for name, values in logged.parts}}


Choices = dict[str, Any]

STAGES: dict[str, tuple[str, Choices]] = {
    "sft packed": ("sft", {}),
    "sft by length": ("sft", {"settings": ["objective.packed=false"]}),
    "sft lora": ("sft", {"lora": 2}),
    "dpo": ("dpo", {}),
    "dpo lora": ("dpo", {"lora": 2}),
    "policy rloo": ("policy-gradient", {"reward": REWARD}),
    "policy grpo k3": (
        "policy-gradient",
        {"reward": REWARD, "settings": ["objective.estimator=grpo", "objective.kl=k3"]},
    ),
    "policy lora k2": (
        "policy-gradient",
        {"reward": REWARD, "lora": 2, "settings": ["objective.kl=k2"]},
    ),
}


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_resumes_bit_for_bit(
    base: Path, file: Path, tmp_path: Path, stage: str
) -> None:
    objective, choices = STAGES[stage]
    begun = tmp_path / "base"
    shutil.copytree(base, begun)
    tune(tmp_path / "straight", objective, begun, file, **choices)

    def press(event: Event) -> None:
        if isinstance(event, StepFinished) and event.step == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted):
        tune(tmp_path / "stopped", objective, begun, file, observers=[press], **choices)
    shutil.rmtree(begun)  # a run is whole without the one that it began as
    runs.resume(tmp_path / "stopped", reward=choices.get("reward"), show=False)
    ends = [load(RunFolder(tmp_path / n).shelf.latest()) for n in ("straight", "stopped")]
    for what in ("model", "optimiser", "random"):
        left, right = (getattr(end, what) for end in ends)
        assert left.keys() == right.keys()
        assert all(torch.equal(left[name], right[name]) for name in left), what
    told = [
        [(e.losses, e.parts) for e in events_of(tmp_path / n) if isinstance(e, Logged)]
        for n in ("straight", "stopped")
    ]
    whole = [[loss for losses, _ in each for loss in losses] for each in told]
    assert whole[0] == whole[1]
    assert measures_at(tmp_path / "straight", 6) == measures_at(tmp_path / "stopped", 6)


@pytest.mark.parametrize(
    ("stage", "precision"),
    [
        ("dpo", "float32"),
        ("dpo lora", "bfloat16"),
        ("policy rloo", "bfloat16"),
        ("policy lora k2", "float32"),
    ],
)
def test_at_the_start_a_model_is_its_reference(
    base: Path, file: Path, tmp_path: Path, stage: str, precision: str
) -> None:
    objective, choices = STAGES[stage]
    said = [*choices.get("settings", ()), f"training.precision={precision}"]
    changed: Choices = {**choices, "settings": said}
    tune(tmp_path / "run", objective, base, file, steps=1, **changed)
    held_out, update = measures_at(tmp_path / "run", 0), first_update(tmp_path / "run")
    assert held_out["kl_exact"] == 0
    if objective == "dpo":
        assert held_out["loss_nats"] == pytest.approx(math.log(2), abs=1e-6)
        assert held_out["accuracy"] == 0.5
        assert update["loss_nats"] == pytest.approx(math.log(2), abs=1e-6)
        assert update["margin"] == 0
    else:
        assert {update[name] for name in ("kl_exact", "kl_k1", "kl_k2", "kl_k3")} == {0.0}


@pytest.mark.parametrize("lora", [2, None])
def test_with_adapters_one_model_is_in_memory_and_without_them_two(
    base: Path, file: Path, tmp_path: Path, lora: int | None
) -> None:
    run = tune(tmp_path / "run", "dpo", base, file, steps=2, lora=lora)
    folder = RunFolder(run.folder)
    given = TaskInputs(
        run=run.config,
        folder=folder,
        model=run.model,
        tokenizer=run.tokenizer,
        data=open_data(folder, run.config.text.corpus),
    )
    ids = torch.tensor([[1, 2, 3]])
    begun = runs.load(base).model
    with torch.no_grad(), open_reference(reference_model(given), run.model) as other:
        assert (other is run.model) == (lora is not None)
        assert torch.equal(other(ids), begun(ids))
    with torch.no_grad():
        assert not torch.equal(run.model(ids), begun(ids))


def test_a_model_that_is_compared_with_itself_has_no_dropout(
    base: Path, file: Path, tmp_path: Path
) -> None:
    kept = tune(tmp_path / "sft", "sft", base, file, steps=1).config.model.decoder
    without = tune(tmp_path / "dpo", "dpo", base, file, steps=1).config.model.decoder
    said = ["model.decoder.dropout=0.2"]
    chosen = tune(tmp_path / "own", "dpo", base, file, steps=1, settings=said).config.model.decoder
    assert kept is not None
    assert without is not None
    assert chosen is not None
    assert (kept.dropout, without.dropout, chosen.dropout) == (0.1, 0.0, 0.2)


def test_accumulated_equals_one_large_batch_where_supervised_tokens_are_uneven(
    base: Path, file: Path, tmp_path: Path
) -> None:
    ends: list[dict[str, torch.Tensor]] = []
    for parts in (1, 4):
        said = [f"training.accumulation={parts}", "model.decoder.dropout=0.0"]
        # by gradients alone: an adaptive denominator blows up the last digits of what is near 0
        said += ['optimiser={kind="SGD", learning_rate=0.5, momentum=0.0, l2=0.0}']
        said += ["training.clip_norm=none"]
        tune(tmp_path / str(parts), "sft", base, file, steps=3, settings=said)
        ends.append(dict(load(RunFolder(tmp_path / str(parts)).shelf.latest()).model))
    begun = load(RunFolder(tmp_path / "1").start).model
    for name, one in ends[0].items():
        torch.testing.assert_close(one, ends[1][name], atol=2e-6, rtol=1e-5)
    assert any(not torch.equal(ends[0][name], begun[name]) for name in begun)


@pytest.mark.parametrize("objective", ["dpo", "policy-gradient"])
def test_what_has_no_reference_is_refused(file: Path, tmp_path: Path, objective: str) -> None:
    reward = REWARD if objective == "policy-gradient" else None
    with pytest.raises(ConfigError, match=r"first weights of this run are random.*--from RUN"):
        pellucid.train([file], objective=objective, reward=reward, out=tmp_path / "run", show=False)
    assert not (tmp_path / "run").exists()


def test_rollouts_depend_on_seed_position_and_weights_alone(
    base: Path, file: Path, tmp_path: Path
) -> None:
    told: list[dict[str, float]] = []
    for name, seed in (("one", 1), ("two", 1), ("three", 2)):
        tune(tmp_path / name, "policy-gradient", base, file, steps=1, reward=REWARD, seed=seed)
        told.append(first_update(tmp_path / name))
    assert told[0] == told[1]
    assert told[0] != told[2]


def test_what_failed_is_told_with_its_row_and_what_was_trained_is_kept(
    base: Path, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    saved: list[int] = []

    def fails(row: dict[str, object], answer: str) -> float:
        asked.append(answer)
        return math.nan if saved else float(len(answer))

    def note(event: Event) -> None:
        if isinstance(event, StepFinished) and event.saving:
            saved.append(event.step)

    monkeypatch.setattr("support.life.short_and_finished", fails)
    with pytest.raises(ConfigError, match=r"row \d+: --reward .* gave nan"):
        tune(tmp_path / "run", "policy-gradient", base, file, reward=REWARD, observers=[note])
    assert RunFolder(tmp_path / "run").shelf.steps() == saved
    saved.clear()
    monkeypatch.undo()
    done = runs.resume(tmp_path / "run", reward=REWARD, show=False)
    assert done.checkpoint.name == "step-6"


def test_a_reward_that_fails_between_checkpoints_loses_no_update(
    base: Path, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[int] = []

    def fails(row: dict[str, object], answer: str) -> float:
        if steps and steps[-1] == 3:
            raise KeyError("label")
        return float(len(answer))

    def note(event: Event) -> None:
        if isinstance(event, StepFinished):
            steps.append(event.step)

    monkeypatch.setattr("support.life.short_and_finished", fails)
    with pytest.raises(ConfigError, match=r"row \d+: --reward .* KeyError: 'label'"):
        tune(tmp_path / "run", "policy-gradient", base, file, reward=REWARD, observers=[note])
    assert RunFolder(tmp_path / "run").shelf.steps() == [3]


def test_a_reward_that_never_worked_leaves_no_folder(
    base: Path, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def praise(row: dict[str, object], answer: str) -> str:
        return "good"

    monkeypatch.setattr("support.life.short_and_finished", praise)
    with pytest.raises(ConfigError, match="could not convert string to float"):
        tune(tmp_path / "run", "policy-gradient", base, file, reward=REWARD)
    assert not (tmp_path / "run").exists()


def test_a_resumed_run_is_told_its_reward_again_and_no_other(
    base: Path, file: Path, tmp_path: Path
) -> None:
    tune(tmp_path / "run", "policy-gradient", base, file, steps=2, reward=REWARD)
    facts = next(dict(e.facts) for e in events_of(tmp_path / "run") if isinstance(e, Started))
    assert facts["reward"] == REWARD
    assert facts["to resume"].endswith(f"--reward {REWARD}")
    with pytest.raises(ConfigError, match=f"trained for --reward {REWARD}"):
        runs.resume(tmp_path / "run", show=False)
    with pytest.raises(ConfigError, match=r"was trained for.*--allow-drift"):
        runs.resume(tmp_path / "run", reward="math:fabs", show=False)
    runs.resume(tmp_path / "run", reward=REWARD, show=False)


def test_a_run_that_began_as_another_can_prove_that_it_resumes(
    base: Path, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def here(path: Path, end: int, reward: str | None) -> None:
        resume_until(str(path), end, reward)

    monkeypatch.setattr("pellucid.runs.verify._in_process", here)  # a process takes seconds
    tune(tmp_path / "run", "policy-gradient", base, file, lora=2, reward=REWARD)
    proof = verify_resume(tmp_path / "run", steps=2, reward=REWARD)
    assert proof.is_equal
    assert (proof.from_step, proof.stopped_at, proof.to_step) == (4, 5, 6)


def test_an_exploding_policy_stops_and_sets_its_rollouts_aside(
    base: Path, file: Path, tmp_path: Path
) -> None:
    said = ['optimiser={kind="SGD", learning_rate=1e30, momentum=0.0, l2=0.0}']
    said += ["training.clip_norm=none", 'schedule={kind="Constant", warm_up=0.0}']
    with pytest.raises(NonFiniteError, match="not finite"):
        tune(tmp_path / "run", "policy-gradient", base, file, reward=REWARD, settings=said)
    (aside,) = (tmp_path / "run" / "non-finite").iterdir()
    assert {each.name for each in aside.iterdir()} >= {"batch.safetensors", "report.json"}


def test_a_stage_may_begin_at_any_checkpoint_of_another(
    base: Path, file: Path, tmp_path: Path
) -> None:
    early = base / "checkpoints" / "step-4"
    run = tune(tmp_path / "run", "sft", early, file, steps=1)
    begun, last = (load(at).model for at in (early, RunFolder(base).shelf.latest()))
    start = load(RunFolder(run.folder).start).model
    assert all(torch.equal(start[name], begun[name]) for name in begun)
    assert any(not torch.equal(start[name], last[name]) for name in last)


def test_pairs_that_teach_nothing_are_counted_and_left_out(base: Path, tmp_path: Path) -> None:
    given = rows()
    for each in given[:3]:
        each["rejected"] = each["chosen"]
    told = write_rows(tmp_path / "rows", given)
    tune(tmp_path / "run", "dpo", base, told, steps=1)
    facts = next(e.facts for e in events_of(tmp_path / "run") if isinstance(e, Started))
    assert any("chosen and rejected are the same" in value for _, value in facts)


@pytest.mark.parametrize("objective", ["sft", "dpo"])
def test_what_is_shown_while_it_learns_is_what_the_user_said(
    base: Path, file: Path, tmp_path: Path, objective: str
) -> None:
    tune(tmp_path / "run", objective, base, file, steps=1)
    shown = [e for e in events_of(tmp_path / "run") if isinstance(e, Sampled)]
    assert shown
    assert all(e.sentence.startswith("say ") and "#" not in e.sentence for e in shown)
