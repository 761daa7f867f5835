"""The track: gaps are named, right solutions pass, and the model that they make trains as ours."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

import pellucid
from pellucid.course.build.check import check_track
from pellucid.course.build.track import write_track
from pellucid.errors import PellucidError
from pellucid.runs import read_events
from pellucid.training import Logged
from support.tiny import TINY, write_text
from support.track_solutions import SOLUTIONS, solve

SGD = 'optimiser={kind="SGD", learning_rate=0.1, momentum=0.9, l2=0.0}'
MISTAKES = {
    "attention.py": ("math.sqrt(q.shape[-1])", "q.shape[-1]", "attention is not right"),
    "norm.py": (".square().mean", ".square().sum", "layer_norm is not right"),
    "loss.py": ("(logits - largest).exp()", "logits.exp()", "cross_entropy is not right"),
    "backward.py": ("targets] -= 1", "targets] -= 2", "gradient by the states is not right"),
    "adamw.py": ("(1 - beta1**step)", "1", "w after step 1 is not right"),
    "schedule.py": ("return step / warm_up", "return 1", "is not right"),
    "sampling.py": ("return torch.softmax", "torch.softmax", "is NoneType"),
    "train.py": ("ids[:, 1:].flatten()", "ids[:, :-1].flatten()", "next_token_loss is not right"),
    "lora.py": ("alpha / down.shape[0] * (", "alpha * (", "lora is not right"),
    "dpo.py": ("[is_answer]", "", "answer_log_probability is not right"),
}


def test_solutions_pass(tmp_path: Path) -> None:
    solve(tmp_path)
    failed = [(r.file, r.message) for r in check_track(tmp_path) if not r.passed]
    assert failed == []


@pytest.mark.nightly
def test_a_mistake_in_a_file_is_found(tmp_path: Path) -> None:
    solve(tmp_path)
    for file, (right, wrong, _) in MISTAKES.items():
        text = (tmp_path / file).read_text()
        assert right in text, file
        (tmp_path / file).write_text(text.replace(right, wrong))
    (tmp_path / "block.py").write_text("def block(:")
    (tmp_path / "embedding.py").unlink()
    messages = {result.file: result.message for result in check_track(tmp_path)}
    for file, (_, _, words) in MISTAKES.items():
        assert words in messages[file], file
    assert "SyntaxError" in messages["block.py"]
    assert "is missing" in messages["embedding.py"]
    assert messages["tokenizer.py"] == "passes"


def test_code_that_does_not_end_is_ended(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.py").write_text("import time\n\ntime.sleep(60)\n")
    results = check_track(tmp_path, seconds=6.0)
    assert "did not end within 6 seconds" in results[0].message
    assert "not reached" in results[1].message


def test_no_file_of_the_reader_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "loss.py").write_text("mine")
    with pytest.raises(PellucidError, match=r"has loss\.py already"):
        write_track(tmp_path)
    assert os.listdir(tmp_path) == ["loss.py"]


@pytest.fixture
def solved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A folder with all solutions as the working folder; its modules are forgotten afterwards."""
    folder = tmp_path / "mine"
    solve(folder)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield folder
    for name in set(sys.modules) - before:
        if name in {Path(file).stem for file in SOLUTIONS}:
            del sys.modules[name]


def losses(folder: Path, text: Path, parts: str | None) -> list[float]:
    settings = [*TINY, "text.held_out=0.2", "model.decoder.dropout=0.0", "training.log_every=1"]
    # SGD, because Muon and AdamW make large steps of rounding
    settings += ["model.decoder.attention.n_kv_heads=2", SGD]
    pellucid.train([text], out=folder, steps=8, settings=settings, show=False, parts=parts)
    events = read_events(folder / "metrics.jsonl")
    return [loss for event in events if isinstance(event, Logged) for loss in event.losses]


def test_a_model_of_the_readers_parts_trains_with_our_losses(solved: Path, tmp_path: Path) -> None:
    text = write_text(tmp_path / "text")
    own_losses = losses(tmp_path / "a", text, "parts:inject")
    assert len(own_losses) == 8
    assert own_losses == pytest.approx(losses(tmp_path / "b", text, None), abs=1e-5)
    assert "attention" in sys.modules
    # an ordinary run: opened without the reader's files, it has the same weights
    run = pellucid.load(tmp_path / "a")
    assert type(run.model).__module__.startswith("pellucid.")
