"""Options that are off by default (early end, averages, mixture), resumed bit for bit."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from tests.runs.test_never_lose_work import assert_same_end

import pellucid
from pellucid import runs
from pellucid.checkpoints import load
from pellucid.errors import ConfigError
from pellucid.runs import RunFolder, read_events
from pellucid.runs.evaluate_examples import evaluate_held_out
from pellucid.runs.resolve_config import resolve_config
from pellucid.training import Evaluated, Finished, Noticed, Started
from support.tiny import TINY, train_tiny

#: The loss rises from the first update on.
HOPELESS = ["optimiser.learning_rate=30.0", "training.patience=2", "training.evaluate_every=2"]
AVERAGED = ["training.ema_decay=0.8"]


def facts(folder: Path) -> dict[str, str]:
    started = next(e for e in read_events(RunFolder(folder).metrics) if isinstance(e, Started))
    return dict(started.facts)


def test_a_run_ends_early_keeps_its_best_and_is_finished(tmp_path: Path) -> None:
    train_tiny(tmp_path / "run", settings=HOPELESS)
    folder = RunFolder(tmp_path / "run")
    events = read_events(folder.metrics)
    losses = [event.loss_nats for event in events if isinstance(event, Evaluated)]
    end = next(event.step for event in events if isinstance(event, Finished))
    assert end < 12
    assert min(losses[-2:]) >= min(losses[:-2])
    assert any("the run ends early" in e.text for e in events if isinstance(e, Noticed))
    assert "after 2 evaluations" in facts(folder.path)["ends early"]
    # from an older checkpoint it ends at the same update, with the same bits
    shutil.copytree(folder.path, tmp_path / "again")
    first = RunFolder(tmp_path / "again").shelf.path(folder.shelf.steps()[0])
    runs.resume(first, show=False)
    assert_same_end(folder.path, tmp_path / "again")
    n_events = len(read_events(folder.metrics))
    runs.resume(folder.path, show=False)
    assert len(read_events(folder.metrics)) == n_events


def test_each_new_best_is_saved_while_a_run_may_end_early(tmp_path: Path) -> None:
    settings = ["training.patience=2", "training.evaluate_every=3", "training.checkpoint_every=12"]
    train_tiny(tmp_path / "run", settings=settings)
    folder = RunFolder(tmp_path / "run")
    evaluated = [e for e in read_events(folder.metrics) if isinstance(e, Evaluated) and e.step]
    best = min(evaluated, key=lambda event: event.loss_nats)
    assert folder.shelf.best() == folder.shelf.path(best.step)


def test_averaged_weights_are_evaluated_saved_and_resumed(trained: Path, tmp_path: Path) -> None:
    train_tiny(tmp_path / "straight", settings=AVERAGED)
    folder = RunFolder(tmp_path / "straight")
    averaged, plain = (load(RunFolder(path).shelf.latest()) for path in (folder.path, trained))
    # the average changes no update: the trained weights equal the weights of a run without it
    for name, weight in plain.model.items():
        key = f"{name}::trained"
        assert torch.equal(averaged.optimiser.get(key, averaged.model[name]), weight)
    assert not all(torch.equal(averaged.model[name], w) for name, w in plain.model.items())
    last = [e for e in read_events(folder.metrics) if isinstance(e, Evaluated)][-1]
    measured = evaluate_held_out(pellucid.load(folder.path))
    assert last.loss_nats == pytest.approx(measured.loss_nats, rel=1e-5)
    assert "is evaluated, sampled, saved and exported" in facts(folder.path)["averaged"]
    shutil.copytree(folder.path, tmp_path / "run")
    runs.resume(tmp_path / "run" / "checkpoints" / "step-8", show=False)
    assert_same_end(folder.path, tmp_path / "run")


def test_dropout_begins_when_so_much_of_the_text_was_read(tmp_path: Path) -> None:
    train_tiny(tmp_path / "late", settings=["training.keep_checkpoints=9"])
    train_tiny(
        tmp_path / "never", settings=["training.keep_checkpoints=9", "model.decoder.dropout=0"]
    )
    # 42 rows an epoch, four an update: half of them are read after six updates
    assert facts(tmp_path / "late")["dropout"] == "begins after 0.5 epochs"
    for step, is_same in ((4, True), (8, False)):
        late, without_dropout = (
            load(RunFolder(tmp_path / name).shelf.path(step)).model for name in ("late", "never")
        )
        assert (
            all(torch.equal(late[name], weight) for name, weight in without_dropout.items())
            == is_same
        )
    shutil.copytree(tmp_path / "late", tmp_path / "run")
    runs.resume(tmp_path / "run" / "checkpoints" / "step-4", show=False)
    assert_same_end(tmp_path / "late", tmp_path / "run")


def test_a_mixture_is_trained_and_resumed(tmp_path: Path) -> None:
    for name, text in (("words", "the cat sat on the mat. "), ("digits", "0123 4567 89. ")):
        (tmp_path / f"{name}.txt").write_text(text * 60)
    sources = ", ".join(
        f'{{paths=["{tmp_path}/{name}.txt"], weight={weight}}}'
        for name, weight in (("words", 1), ("digits", 3))
    )
    mixture = f'text.corpus={{kind="Mixture", sources=[{sources}]}}'
    settings = [*TINY, "text.held_out=0.2", mixture]
    pellucid.train([], out=tmp_path / "straight", steps=12, settings=settings, show=False)
    shutil.copytree(tmp_path / "straight", tmp_path / "run")
    assert facts(tmp_path / "run")["mixed"].startswith("25.0% ")
    runs.resume(tmp_path / "run" / "checkpoints" / "step-8", show=False)
    assert_same_end(tmp_path / "straight", tmp_path / "run")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (["training.patience=3"], "patience 3 cannot end a run early"),
        (["training.patience=0"], "patience must be at least 1"),
        (["training.dropout_from_epoch=-1"], "dropout_from_epoch must be at least 0"),
        (["training.ema_decay=1.0"], "ema_decay must be at least 0 and less than 1"),
        ([*AVERAGED, "parallel.shard=full"], "averages whole weights"),
        (["training.device=mps"], "does not compute on Apple's 'mps'"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, settings: list[str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        train_tiny(tmp_path / "run", settings=settings)


def test_examples_come_in_whole_rows_where_a_preset_lets_rows_of_text_grow() -> None:
    assert resolve_config(preset="small").training.growth is not None
    assert (
        resolve_config(["answers.jsonl"], preset="small", objective="sft").training.growth is None
    )


def test_a_disk_with_too_little_room_is_named_before_the_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pellucid.runs.summary.free_bytes", lambda path: 1000)
    train_tiny(tmp_path / "run", steps=1)
    events = read_events(RunFolder(tmp_path / "run").metrics)
    facts = next(dict(event.facts) for event in events if isinstance(event, Started))
    assert facts["disk"].startswith("1 kB left, too little: 3 checkpoints of about ")
