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
from support.nightly import sampled

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
    (evaluated,) = (e for e in events_of(folder) if isinstance(e, Evaluated) and e.step == step)
    return {"loss_nats": evaluated.loss_nats, **dict(evaluated.measures)}


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


@pytest.mark.parametrize("stage", sampled(STAGES, 2))
def test_every_stage_resumes_bit_for_bit(
    base: Path, file: Path, tmp_path: Path, stage: str
) -> None:
    objective, choices = STAGES[stage]
    base_copy = tmp_path / "base"
    shutil.copytree(base, base_copy)
    tune(tmp_path / "straight", objective, base_copy, file, **choices)

    def press(event: Event) -> None:
        if isinstance(event, StepFinished) and event.step == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted):
        tune(tmp_path / "stopped", objective, base_copy, file, observers=[press], **choices)
    shutil.rmtree(base_copy)  # a run is whole without the one that it began as
    runs.resume(tmp_path / "stopped", reward=choices.get("reward"), show=False)
    ends = [load(RunFolder(tmp_path / n).shelf.latest()) for n in ("straight", "stopped")]
    for state_name in ("model", "optimiser", "random"):
        left, right = (getattr(end, state_name) for end in ends)
        assert left.keys() == right.keys()
        assert all(torch.equal(left[name], right[name]) for name in left), state_name
    losses_of_runs = [
        [(e.losses, e.parts) for e in events_of(tmp_path / n) if isinstance(e, Logged)]
        for n in ("straight", "stopped")
    ]
    flat_losses = [
        [loss for losses, _ in run_losses for loss in losses] for run_losses in losses_of_runs
    ]
    assert flat_losses[0] == flat_losses[1]
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
    all_settings = [*choices.get("settings", ()), f"training.precision={precision}"]
    all_choices: Choices = {**choices, "settings": all_settings}
    tune(tmp_path / "run", objective, base, file, steps=1, **all_choices)
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
    inputs = TaskInputs(
        run=run.config,
        folder=folder,
        model=run.model,
        tokenizer=run.tokenizer,
        data=open_data(folder, run.config.text.corpus),
    )
    ids = torch.tensor([[1, 2, 3]])
    base_model = runs.load(base).model
    with torch.no_grad(), open_reference(reference_model(inputs), run.model) as other:
        assert (other is run.model) == (lora is not None)
        assert torch.equal(other(ids), base_model(ids))
    with torch.no_grad():
        assert not torch.equal(run.model(ids), base_model(ids))


def test_a_model_that_is_compared_with_itself_has_no_dropout(
    base: Path, file: Path, tmp_path: Path
) -> None:
    after_sft = tune(tmp_path / "sft", "sft", base, file, steps=1).config.model.decoder
    after_dpo = tune(tmp_path / "dpo", "dpo", base, file, steps=1).config.model.decoder
    dropout_settings = ["model.decoder.dropout=0.2"]
    dropout_set = tune(
        tmp_path / "own", "dpo", base, file, steps=1, settings=dropout_settings
    ).config.model.decoder
    assert after_sft is not None
    assert after_dpo is not None
    assert dropout_set is not None
    assert (after_sft.dropout, after_dpo.dropout, dropout_set.dropout) == (0.1, 0.0, 0.2)


def test_accumulated_equals_one_large_batch_where_supervised_tokens_are_uneven(
    base: Path, file: Path, tmp_path: Path
) -> None:
    ends: list[dict[str, torch.Tensor]] = []
    for parts in (1, 4):
        settings = [f"training.accumulation={parts}", "model.decoder.dropout=0.0"]
        # by gradients alone: an adaptive denominator blows up the last digits of gradients near 0
        settings += ['optimiser={kind="SGD", learning_rate=0.5, momentum=0.0, l2=0.0}']
        settings += ["training.clip_norm=none"]
        tune(tmp_path / str(parts), "sft", base, file, steps=3, settings=settings)
        ends.append(dict(load(RunFolder(tmp_path / str(parts)).shelf.latest()).model))
    first_weights = load(RunFolder(tmp_path / "1").start).model
    for name, tensor in ends[0].items():
        torch.testing.assert_close(tensor, ends[1][name], atol=2e-6, rtol=1e-5)
    assert any(not torch.equal(ends[0][name], first_weights[name]) for name in first_weights)


@pytest.mark.parametrize("objective", ["dpo", "policy-gradient"])
def test_what_has_no_reference_is_refused(file: Path, tmp_path: Path, objective: str) -> None:
    reward = REWARD if objective == "policy-gradient" else None
    with pytest.raises(ConfigError, match=r"first weights of this run are random.*--from RUN"):
        pellucid.train([file], objective=objective, reward=reward, out=tmp_path / "run", show=False)
    assert not (tmp_path / "run").exists()


def test_rollouts_depend_on_seed_position_and_weights_alone(
    base: Path, file: Path, tmp_path: Path
) -> None:
    updates: list[dict[str, float]] = []
    for name, seed in (("one", 1), ("two", 1), ("three", 2)):
        tune(tmp_path / name, "policy-gradient", base, file, steps=1, reward=REWARD, seed=seed)
        updates.append(first_update(tmp_path / name))
    assert updates[0] == updates[1]
    assert updates[0] != updates[2]


def test_what_failed_is_told_with_its_row_and_what_was_trained_is_kept(
    base: Path, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[str] = []
    saved: list[int] = []

    def fails(row: dict[str, object], answer: str) -> float:
        answers.append(answer)
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
    resumed = runs.resume(tmp_path / "run", reward=REWARD, show=False)
    assert resumed.checkpoint.name == "step-6"


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
    def run_here(path: Path, end: int, reward: str | None) -> None:
        resume_until(str(path), end, reward)

    monkeypatch.setattr("pellucid.runs.verify._in_process", run_here)  # a process takes seconds
    tune(tmp_path / "run", "policy-gradient", base, file, lora=2, reward=REWARD)
    proof = verify_resume(tmp_path / "run", steps=2, reward=REWARD)
    assert proof.is_equal
    assert (proof.from_step, proof.stopped_at, proof.to_step) == (4, 5, 6)


def test_an_exploding_policy_stops_and_sets_its_rollouts_aside(
    base: Path, file: Path, tmp_path: Path
) -> None:
    settings = ['optimiser={kind="SGD", learning_rate=1e30, momentum=0.0, l2=0.0}']
    settings += ["training.clip_norm=none", 'schedule={kind="Constant", warm_up=0.0}']
    with pytest.raises(NonFiniteError, match="not finite"):
        tune(tmp_path / "run", "policy-gradient", base, file, reward=REWARD, settings=settings)
    (aside_folder,) = (tmp_path / "run" / "non-finite").iterdir()
    assert {aside_file.name for aside_file in aside_folder.iterdir()} >= {
        "batch.safetensors",
        "report.json",
    }


def test_a_stage_may_begin_at_any_checkpoint_of_another(
    base: Path, file: Path, tmp_path: Path
) -> None:
    early = base / "checkpoints" / "step-4"
    run = tune(tmp_path / "run", "sft", early, file, steps=1)
    first_weights, last = (
        load(checkpoint).model for checkpoint in (early, RunFolder(base).shelf.latest())
    )
    start = load(RunFolder(run.folder).start).model
    assert all(torch.equal(start[name], first_weights[name]) for name in first_weights)
    assert any(not torch.equal(start[name], last[name]) for name in last)


def test_pairs_that_teach_nothing_are_counted_and_left_out(base: Path, tmp_path: Path) -> None:
    all_rows = rows()
    for chosen_row in all_rows[:3]:
        chosen_row["rejected"] = chosen_row["chosen"]
    rows_file = write_rows(tmp_path / "rows", all_rows)
    tune(tmp_path / "run", "dpo", base, rows_file, steps=1)
    facts = next(e.facts for e in events_of(tmp_path / "run") if isinstance(e, Started))
    assert any("chosen and rejected are the same" in value for _, value in facts)


@pytest.mark.parametrize("objective", ["sft", "dpo"])
def test_what_is_shown_while_it_learns_is_what_the_user_said(
    base: Path, file: Path, tmp_path: Path, objective: str
) -> None:
    tune(tmp_path / "run", objective, base, file, steps=1)
    samples = [e for e in events_of(tmp_path / "run") if isinstance(e, Sampled)]
    assert samples
    assert all(e.sentence.startswith("say ") and "#" not in e.sentence for e in samples)
