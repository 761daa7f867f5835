"""What `transformers.Trainer` and TensorBoard's writer themselves write is read to the last row."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid.diagnosis import history_of_log

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def no_folder_for_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder tests/datasets is not the package datasets that the trainer looks for."""
    if importlib.util.find_spec("transformers") is not None:
        monkeypatch.setattr("transformers.trainer.is_datasets_available", lambda: False)


def trained(folder: Path, **more: Any) -> tuple[Any, str]:
    """A tiny model, trained by the trainer itself; the trainer, and what it printed."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=32, n_embd=16, n_layer=1, n_head=2, n_positions=16)
    )
    ids = torch.randint(32, (64, 16)) % torch.randint(1, 33, (64, 1))
    rows = [{"input_ids": row, "labels": row} for row in ids]
    arguments = {"max_steps": 20, "learning_rate": 1e-2, "logging_steps": 1} | more
    settings = transformers.TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=8,
        eval_strategy="steps",
        eval_steps=10,
        save_steps=10,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        **arguments,
    )
    trainer = transformers.Trainer(
        model=model, args=settings, train_dataset=rows, eval_dataset=rows[:8]
    )
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        trainer.train()
    return trainer, said.getvalue()


def test_trainers_own_state_and_console_are_read_to_the_last_row(tmp_path: Path) -> None:
    trainer, said = trained(tmp_path / "out")
    logged = [row for row in trainer.state.log_history if "loss" in row]
    history = history_of_log(tmp_path / "out")
    assert history.losses == tuple((row["step"], row["loss"]) for row in logged)
    assert history.grad_norms == tuple((row["step"], row["grad_norm"]) for row in logged)
    assert history.rates == tuple((row["step"], row["learning_rate"]) for row in logged)
    assert [step for step, _ in history.held_out] == [10, 20]
    assert history.facts.vocab_size == 32
    (tmp_path / "console.txt").write_text(said)
    of_console = history_of_log(tmp_path / "console.txt")
    assert [value for _, value in of_console.losses] == pytest.approx(
        [value for _, value in history.losses], rel=1e-3
    )
    assert len(of_console.held_out) == 2


def test_learning_rate_of_trainer_that_is_far_too_high_is_seen(tmp_path: Path) -> None:
    trained(tmp_path / "out", learning_rate=3.0, max_steps=40, max_grad_norm=0.0)
    assert "LOG002" in {each.code for each in history_of_log(tmp_path / "out").findings}


def test_event_files_of_tensorboards_writer_are_read(tmp_path: Path) -> None:
    tensorboard = pytest.importorskip(
        "torch.utils.tensorboard", reason="tensorboard is not installed"
    )
    with tensorboard.SummaryWriter(str(tmp_path)) as writer:
        writer.add_text("notes", "not a number", 0)
        writer.add_histogram("weights", torch.arange(9.0), 0)
        for step in range(300):
            writer.add_scalar("Loss/train", 3.0 - step / 200, step)
            writer.add_scalar("grad_norm", 1.0, step, new_style=True)
        writer.add_scalar("Loss/train", math.nan, 300)
    history = history_of_log(tmp_path)
    assert history.losses == tuple(
        (step, pytest.approx(3.0 - step / 200, rel=1e-6)) for step in range(300)
    )
    assert len(history.grad_norms) == 300
    assert history.stopped == (300, "loss", "")
