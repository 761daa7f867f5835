"""Damaged input of every kind, by fixed seeds: a refusal in words, or a result; nothing else."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from pellucid.config import Plan, decode
from pellucid.diagnosis.logs.tensorboard import scalars_of
from pellucid.errors import PellucidError
from pellucid.reader import csv_rows, parse_json, parse_tensors, parse_tokenizer, parse_toml
from support.foreign_logs import event_file
from support.hostile import HUGE, bounded_memory, damaged, ends


def tokenizer() -> bytes:
    inner = Tokenizer(models.BPE(vocab={"<b>": 0, "a": 1, "b": 2, "ab": 3}, merges=[("a", "b")]))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.TemplateProcessing(
        single="<b> $A", pair="$A $B", special_tokens=[("<b>", 0)]
    )
    inner.add_special_tokens(["<b>"])
    return inner.to_str().encode()


def event_log() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        numbers = {"train/loss": [(1, 2.5), (300, 1.5)], "lr": [(1, 0.1)]}
        return event_file(Path(folder), numbers).read_bytes()


def scalars(content: bytes) -> object:
    with tempfile.NamedTemporaryFile(prefix="events.out.tfevents.") as file:
        file.write(content)
        file.flush()
        return scalars_of(Path(file.name))


def text_of(content: bytes) -> str:
    return content.decode("utf-8", "replace")


PLAN = {
    "total_steps": 3, "threads": 1, "device": "cpu", "precision": "float32", "compile": False,
    "device_name": "x", "torch_version": "2",
}  # fmt: skip
READERS: dict[str, tuple[bytes, Callable[[bytes], object]]] = {
    "json": (json.dumps(PLAN).encode(), lambda c: parse_json(text_of(c), "file")),
    "plan": (
        json.dumps(PLAN).encode(),
        lambda c: decode(Plan, parse_json(text_of(c), "file"), "plan"),
    ),
    "toml": (b'[a.b]\nc = [1, 2.5]\nd = {e = "f"}\n', lambda c: parse_toml(text_of(c), "file")),
    "csv": (
        b'a,b\n1,"x\ny"\n2,z\n',
        lambda c: list(csv_rows(text_of(c).splitlines(keepends=True), "file", ",")),
    ),
    "tensors": (
        safetensors.numpy.save({"a": np.ones((2, 3), np.float32), "b": np.zeros(4, np.int64)}),
        lambda c: parse_tensors(c, "file"),
    ),
    "TensorBoard": (event_log(), scalars),
    "tokenizer": (tokenizer(), lambda c: parse_tokenizer(text_of(c), "file")),
}


def attack(name: str, seeds: range) -> None:
    content, read = READERS[name]
    longest = 0
    with bounded_memory():
        for seed in seeds:
            broken = damaged(content, random.Random(f"{name} {seed}"))
            try:
                read(broken)
            except PellucidError as error:
                longest = max(longest, len(str(error)))
            except Exception as error:
                raise AssertionError(f"{name}, seed {seed}: {broken[:300]!r}") from error
    assert longest < 1000


@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_refused_in_words_or_read(name: str) -> None:
    attack(name, range(1000))


@pytest.mark.nightly
@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_refused_in_words_or_read_at_length(name: str) -> None:
    attack(name, range(1000, 50_000))


FILES = ("config.toml", "plan.json", "tokenizer.json", "checkpoints/*/checkpoint.json")


@pytest.mark.parametrize("name", FILES)
def test_a_run_with_a_damaged_file_ends_in_words(
    name: str, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained, run, ignore=shutil.ignore_patterns("text", "films"))
    for file in run.glob(name):
        content = file.read_bytes()
        for seed in range(3):
            file.write_bytes(damaged(content, random.Random(f"{name} {seed}")))
            ends(["generate", str(run), "--prompt", "a", "--max-new-tokens", "2"], capsys)
        file.write_bytes(content)


@pytest.mark.parametrize("content", HUGE, ids=lambda content: str(content[:8]))
def test_a_hostile_log_or_config_ends_in_words(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (
        "log.jsonl",
        "trainer_state.json",
        "log.csv",
        "events.out.tfevents.1",
        "config.toml",
    ):
        file = tmp_path / name
        file.write_bytes(b'{"loss": ' + content + b"}\n" if name.endswith("l") else content)
        if name == "config.toml":
            assert ends(["train", "--config", str(file)], capsys) == 2
        else:
            ends(["diagnose", str(file)], capsys)


NUMBERS = [
    ["generate", "RUN", "--beams", "99999"], ["generate", "RUN", "--temperature", "nan"],
    ["generate", "RUN", "--top-p", "inf"], ["generate", "RUN", "--seed", "9" * 5000],
    ["train", "--set", "training.batch_size=99999999"], ["train", "--steps", "9" * 30],
    ["train", "--set", "optimiser.learning_rate=nan"], ["train", "--minutes", "inf"],
    ["train", "--set", "model.decoder.n_layers=1000000000"], ["train", "--config", "/dev/zero"],
    ["train", "--set", "training.log_every=0x" + "f" * 9000], ["train", "/dev/zero"],
    ["verify-resume", "RUN", "--steps", "-1"], ["train", "", "--steps", "1"],
    ["tokenizer", "train", "x.txt", "--vocab-size", "1000000000000", "--out", "t"],
]  # fmt: skip


@pytest.mark.parametrize("words", NUMBERS, ids=lambda words: " ".join(words)[:40])
def test_a_number_beyond_all_reason_is_refused_at_once(
    words: list[str],
    trained: Path,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: Any,
) -> None:
    monkeypatch.chdir(tmp_path)
    with bounded_memory():
        assert ends([str(trained) if word == "RUN" else word for word in words], capsys) == 2
