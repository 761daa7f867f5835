"""Logs of others are read as they are, and what cannot be read is refused in words."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.diagnosis import history_of_log, is_log, list_unknowns
from pellucid.diagnosis.logs.parsers import rows_in
from pellucid.errors import PellucidError
from support.foreign_logs import (
    CONSOLES,
    Curves,
    console,
    event_file,
    healthy,
    lightning,
    table,
    trainer_state,
)


def near(points: tuple[tuple[int, float], ...], expected: list[float], off: float = 1e-3) -> bool:
    return [value for _, value in points] == pytest.approx(expected, rel=off)


def test_trainer_state_is_read_whole_and_its_last_sum_is_no_loss(tmp_path: Path) -> None:
    made = healthy()
    trainer_state(tmp_path / "out" / "checkpoint-600" / "trainer_state.json", healthy(rows=60))
    trainer_state(tmp_path / "out" / "checkpoint-1200" / "trainer_state.json", made)
    (tmp_path / "out" / "checkpoint-1200" / "training_args.bin").write_bytes(b"never opened")
    (tmp_path / "out" / "checkpoint-1200" / "config.json").write_text('{"vocab_size": 4096}')
    for place in ("out", "out/checkpoint-1200", "out/checkpoint-1200/trainer_state.json"):
        history = history_of_log(tmp_path / place)
        assert near(history.losses, made.losses)
        assert [step for step, _ in history.losses] == made.steps
        assert near(history.grad_norms, made.norms, 1e-2)
        assert near(history.rates, made.rates)
        assert history.held_out == tuple(made.held_out)
        assert history.facts.vocab_size == 4096
        assert history.facts.total_steps == 1200
        assert history.facts.learning_rate == max(made.rates)
        assert history.findings == ()


def test_tensorboard_is_read_without_tensorboard(tmp_path: Path) -> None:
    made = healthy()
    old = {"train/loss": [(1, 9.0)]}
    event_file(tmp_path / "runs" / "Jan01", old).touch()
    tags = {
        "train/loss": list(zip(made.steps, made.losses, strict=True)),
        "train/grad_norm": list(zip(made.steps, made.norms, strict=True)),
        "train/learning_rate": list(zip(made.steps, made.rates, strict=True)),
        "eval/loss": made.held_out,
        "train/train_loss": [(1200, 4.0)],
        "train/epoch": [(step, 0.5) for step in made.steps],
    }
    file = event_file(tmp_path / "runs" / "Jan02", tags)
    import os

    os.utime(tmp_path / "runs" / "Jan01" / "events.out.tfevents.1.host", (1, 1))
    for place in (tmp_path, tmp_path / "runs" / "Jan02", file):
        history = history_of_log(place)
        assert near(history.losses, made.losses)
        assert [step for step, _ in history.losses] == made.steps
        assert near(history.grad_norms, made.norms, 1e-2)
        assert near(history.rates, made.rates)
        assert near(history.held_out, [value for _, value in made.held_out])


@pytest.mark.parametrize(
    ("loss", "norm", "rate"),
    [
        ("loss", "grad_norm", "lr"),
        ("train/loss", "optim/total_grad_norm", "optim/learning_rate_group0"),
        ("Train Loss", "Grad Norm", "Learning Rate"),
        ("my-run - train/loss", "my-run - train/grad_norm", "my-run - train/learning_rate"),
        ("train/loss_nats", "train/grad_norm", "train/learning_rate"),
        ("lm loss", "gnorm", "lr-AdamW"),
    ],
)
def test_columns_are_known_by_their_usual_names(
    loss: str, norm: str, rate: str, tmp_path: Path
) -> None:
    made = healthy(rows=40)
    history = history_of_log(table(tmp_path / "log.csv", made, ("Step", loss, norm, rate)))
    assert near(history.losses, made.losses)
    assert near(history.grad_norms, made.norms)
    assert near(history.rates, made.rates)


def test_alternating_rows_of_lightning_are_put_together(tmp_path: Path) -> None:
    made = healthy(rows=40)
    folder = tmp_path / "lightning_logs" / "version_3"
    folder.mkdir(parents=True)
    lightning(folder / "metrics.csv", made)
    history = history_of_log(tmp_path / "lightning_logs")
    assert near(history.losses, made.losses)
    assert near(history.rates, made.rates)
    assert history.held_out == tuple(made.held_out)


@pytest.mark.parametrize("name", CONSOLES)
def test_lines_of_a_console_are_read(name: str, tmp_path: Path) -> None:
    made = healthy(rows=40)
    line = CONSOLES[name]
    history = history_of_log(console(tmp_path / "train.log", made, line))
    assert near(history.losses, made.losses)
    assert [s for s, _ in history.losses] == (made.steps if "{step" in line else [*range(1, 41)])
    if "{norm" in line:
        assert near(history.grad_norms, made.norms, 1e-2)
    if "{rate" in line:
        assert near(history.rates, made.rates, 1e-2)
    assert history.findings == ()


def test_train_and_validation_losses_on_a_line_are_told_apart(tmp_path: Path) -> None:
    file = tmp_path / "log.txt"
    lines = [f"step {i}: train loss {5 - i / 100:.4f}, val loss {6 - i / 100}" for i in range(9)]
    file.write_text("\n".join(lines))
    history = history_of_log(file)
    assert near(history.losses, [5 - i / 100 for i in range(9)])
    assert near(history.held_out, [6 - i / 100 for i in range(9)])


def test_messy_rows_are_borne(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text(
        "\ufeffiter;loss;grad_norm\r\n1;3,5;1,0\r\n2;;\r\n3;NaN;inf\r\n4;3,1;nan\r\n4;3,0;0,9\r\n"
    )
    history = history_of_log(file)
    assert history.losses == ((1, 3.5), (4, 3.0))
    assert history.grad_norms == ((1, 1.0), (4, 0.9))
    assert history.stopped is None
    lines = tmp_path / "log.jsonl"
    rows = [{"step": i, "train": {"loss": str(5.0 - i)}, "note": "x"} for i in range(3)]
    lines.write_text("\n".join(json.dumps(row) for row in rows) + '\n{"step": 3, "trai')
    assert history_of_log(lines).losses == ((0, 5.0), (1, 4.0), (2, 3.0))
    lines.write_text('{"loss": [3.0, 2.5], "val_loss": [3.1, 2.9]}')
    assert history_of_log(lines).held_out == ((1, 3.1), (2, 2.9))
    lines.write_text("3.0\n2.5\n2.0\n")
    assert history_of_log(lines).losses == ((1, 3.0), (2, 2.5), (3, 2.0))


def test_steps_that_are_repeated_after_a_resume_count_once(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    steps = [*range(1, 31), *range(21, 41)]
    rows = [{"step": step, "loss": 4.0 - i / 100} for i, step in enumerate(steps)]
    file.write_text("\n".join(map(json.dumps, rows)))
    history = history_of_log(file)
    assert [step for step, _ in history.losses] == [*range(1, 41)]
    assert dict(history.losses)[21] == 4.0 - 30 / 100


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.csv", "", "is empty"),
        ("a.csv", "   \n \n", "is empty"),
        ("a.csv", "colour,shape\nred,round\n", "no row of numbers"),
        ("a.csv", "x,y\n1,2\n", "none of its columns has a known name|no row of numbers"),
        ("trainer_state.json", '{"log_history": [', "is damaged"),
        ("trainer_state.json", '{"log_history": []}', "set logging_steps"),
        ("trainer_state.json", '{"log_history": 3}', "must be a list"),
        ("a.json", '{"vocab_size": 5}', "none of its columns has a known name"),
        ("a.txt", "a poem about nothing\nwith two lines\n", "no row of numbers"),
        ("events.out.tfevents.1", "not at all an event file of TensorBoard", "but is damaged"),
    ],
)
def test_what_is_no_log_is_refused_in_words(
    name: str, content: str, says: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(PellucidError, match=says) as refused:
        history_of_log(tmp_path / name)
    assert name in str(refused.value)


def test_what_is_not_there_or_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PellucidError, match="does not exist; expected a trainer_state"):
        history_of_log(tmp_path / "none")
    with pytest.raises(PellucidError, match="holds neither a run"):
        history_of_log(tmp_path)
    assert not is_log(tmp_path)
    (tmp_path / "weights.bin").write_bytes(bytes(range(256)))
    with pytest.raises(PellucidError, match="is not UTF-8"):
        history_of_log(tmp_path / "weights.bin")


@given(st.text())
def test_any_text_is_read_or_has_no_rows(text: str) -> None:
    assert all(isinstance(v, float) for row in rows_in(text) for v in row.values())


def test_signs_in_a_log_are_signs_of_the_history(tmp_path: Path) -> None:
    file = tmp_path / "vitals.jsonl"
    rows = [{"step": i, "loss": 3.0, "vitals/attention/all/max_logit": 20.0 * i} for i in range(9)]
    file.write_text("\n".join(map(json.dumps, rows)))
    words = [each.word for each in history_of_log(file).signs["attention.max_logit"]]
    assert words[0] == "calm"
    assert words[-1] == "sick"


def test_what_cannot_be_said_depends_on_what_is_there(tmp_path: Path) -> None:
    alone = Curves(losses=[3.0 - i / 100 for i in range(30)])
    file = tmp_path / "losses.txt"
    file.write_text("\n".join(map(str, alone.losses)))
    said = " ".join(list_unknowns(history_of_log(file)))
    for missing in ("gradient norms", "learning rates", "held-out", "--vocab-size", "VitalsCallb"):
        assert missing in said
    assert "pellucid check" in said
    state = trainer_state(tmp_path / "trainer_state.json", healthy())
    said = " ".join(list_unknowns(history_of_log(state, vocab_size=4096)))
    for there in ("no gradient norms", "no learning rates", "held-out", "--vocab-size"):
        assert there not in said
    assert math.isclose(history_of_log(state, vocab_size=7).facts.vocab_size or 0, 7)
