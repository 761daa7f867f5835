"""The recipes on spam, small: the same scripts, on a few messages that are made up here."""

from __future__ import annotations

import importlib
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pellucid import runs

SMALL = (
    "model.encoder.n_layers=1",
    "model.encoder.attention.d_head=8",
    "model.encoder.feed_forward.d_ff=32",
    "model.d_model=16",
    "model.context_length=32",
)


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    spam = importlib.import_module("benchmarks.recipes.spam")
    for name in ("SMALL", "TINY"):
        monkeypatch.setattr(spam, name, SMALL)
    names = ("spam", "classification", "sparse_features", "weight_decay_and_smoothing")
    return {name: importlib.import_module(f"benchmarks.recipes.{name}") for name in names}


def write_messages(file: Path, n: int = 120) -> Path:
    chance = random.Random(0)
    lines = [
        f"spam\tcall now {chance.randint(1000, 9999)} to win cash {number}"
        if number % 4 == 0
        else f"ham\tsee you at {chance.choice(('lunch', 'home', 'noon'))} then {number}"
        for number in range(n)
    ]
    file.write_text("\n".join([*lines, *lines[:9]]) + "\n", encoding="utf-8")
    return file


@pytest.fixture
def reader(scripts: dict[str, Any], tmp_path: Path) -> runs.Run:
    text = tmp_path / "text.txt"
    text.write_text("see you at home, call them now to win at noon.\n" * 80, encoding="utf-8")
    return scripts["classification"].pretrained([text], tmp_path / "reader", 2)


def test_no_text_is_on_both_sides_and_the_sides_do_not_depend_on_the_order(
    scripts: dict[str, Any], tmp_path: Path
) -> None:
    spam, messages = scripts["spam"], write_messages(tmp_path / "messages")
    train, test = (file.read_text("utf-8").splitlines() for file in spam.parted(messages, tmp_path))
    lines = messages.read_text("utf-8").splitlines()
    assert Counter([*train, *test]) == Counter(lines)
    assert not {*train} & {*test}
    messages.write_text("\n".join(reversed(lines)) + "\n", encoding="utf-8")
    reordered = spam.parted(messages, tmp_path / "again")[1].read_text("utf-8").splitlines()
    assert sorted(reordered) == sorted(test)


def test_the_real_messages_are_parted_as_the_page_says(
    scripts: dict[str, Any], shared_data: Path, tmp_path: Path
) -> None:
    messages = shared_data / "sms-spam" / "SMSSpamCollection"
    sides = [f.read_text("utf-8").splitlines() for f in scripts["spam"].parted(messages, tmp_path)]
    assert [len(side) for side in sides] == [4441, 1133]
    assert [sum(line.startswith("spam\t") for line in side) for side in sides] == [581, 166]


def test_the_pretrained_and_the_new_are_taught_and_judged_alike(
    scripts: dict[str, Any], reader: runs.Run, tmp_path: Path
) -> None:
    train, test = scripts["spam"].parted(write_messages(tmp_path / "messages"), tmp_path)
    scripts["classification"].RATES = (1e-2,)
    for start in (reader.folder, None):
        place = tmp_path / f"from-{start is not None}"
        figures = scripts["classification"].compared(train, test, place, reader.folder, start, [1])
        assert figures["learning_rate"] == 1e-2
        assert 0 <= figures["f1"]["mean"] <= 1
        trained_run = runs.load(place / "rate-0.01-seed-1")
        assert trained_run.tokenizer.sha256 == reader.tokenizer.sha256
        assert (trained_run.config.start is None) == (start is None)


def test_features_without_a_weight_are_counted_out(
    scripts: dict[str, Any], reader: runs.Run, tmp_path: Path
) -> None:
    spam, sparse = scripts["spam"], scripts["sparse_features"]
    train, _ = spam.parted(write_messages(tmp_path / "messages"), tmp_path)
    classifier = spam.train_classifier(
        train,
        tmp_path / "begun",
        tokenizer=reader.folder,
        start=None,
        seed=1,
        epochs=1,
        settings=[spam.adamw(1e-2, 0.0)],
        model=SMALL,
    )
    left = [
        sparse.survivors(sparse.picked(train, tmp_path / f"l1-{l1}", classifier.folder, l1, 1))
        for l1 in (0.0, 10.0)
    ]
    assert left[0] == {"features": 16, "survive": 16, "weights": 32, "zeros": 0}
    assert left[1]["survive"] == 0
    assert left[1]["zeros"] == 32


def test_a_figure_of_several_seeds_has_each_of_them(
    scripts: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    spam = scripts["spam"]
    monkeypatch.setattr(spam, "FOLDER", tmp_path / "recipes")
    (tmp_path / "results").mkdir()
    file = spam.write_results("made-up", {"f1": spam.spread([0.5, 0.7])})
    assert json.loads(file.read_text("utf-8"))["f1"] == {"mean": 0.6, "each": [0.5, 0.7]}
