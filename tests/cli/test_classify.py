"""`pellucid classify`: its output, and its refusals."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest

import pellucid
from pellucid import config
from support.kinds import CLASSES, write_bert_tokenizer, write_run

TEXTS = ("the cat sat on the mat.", "a dog runs home", "the cat sat")
SEVERAL = config.Classification(label_smoothing=0.0, multi_label=True)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("classes")
    tokenizer = write_bert_tokenizer(place / "tokenizer")
    return {
        "one": write_run(place / "one", "encoder with classes", tokenizer),
        "several": write_run(place / "several", "decoder with classes", tokenizer, SEVERAL),
        "words": write_run(place / "words", "decoder", tokenizer),
    }


def test_a_line_has_the_class_its_probability_and_the_text(
    runs: dict[str, Path], stdout_of: Any, json_of: Any
) -> None:
    lines = stdout_of("classify", runs["one"], *TEXTS).splitlines()
    facts = json_of("classify", runs["one"], *TEXTS)
    assert facts["multi_label"] is False
    for line, fact, text in zip(lines, facts["texts"], TEXTS, strict=True):
        name, probability, class_text = line.split(maxsplit=2)
        assert class_text == fact["text"] == text
        assert set(fact["probabilities"]) == set(CLASSES)
        assert sum(fact["probabilities"].values()) == pytest.approx(1)
        assert [name] == fact["classes"]
        assert fact["probabilities"][name] == max(fact["probabilities"].values())
        assert float(probability) == pytest.approx(fact["probabilities"][name], abs=1e-4)
        assert fact["truncated"] is False


def test_all_classes_are_shown_likeliest_first(runs: dict[str, Path], stdout_of: Any) -> None:
    rows = [
        line.split() for line in stdout_of("classify", runs["one"], TEXTS[0], "--all").splitlines()
    ]
    assert {row[-1] for row in rows} == set(CLASSES)
    assert [row[1] == "*" for row in rows] == [True, False, False]
    shares = [float(row[0]) for row in rows]
    assert shares == sorted(shares, reverse=True)
    all_classes = stdout_of("classify", runs["one"], *TEXTS, "--all")
    assert [text in all_classes for text in TEXTS] == [True] * 3


def test_with_several_labels_those_above_one_half_are_the_texts(
    runs: dict[str, Path], stdout_of: Any, json_of: Any
) -> None:
    facts = json_of("classify", runs["several"], *TEXTS)
    assert facts["multi_label"] is True
    lines = stdout_of("classify", runs["several"], *TEXTS).splitlines()
    for line, fact in zip(lines, facts["texts"], strict=True):
        likely = {name for name, share in fact["probabilities"].items() if share > 0.5}
        assert set(fact["classes"]) == likely
        likely_classes = [f"{name} {fact['probabilities'][name]:.4f}" for name in fact["classes"]]
        assert line.startswith(", ".join(likely_classes) if likely_classes else "(none; ")
        assert line.endswith(fact["text"])


def test_texts_come_from_a_file_and_a_pipe(
    runs: dict[str, Path], stdout_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "\n".join(TEXTS) + "\n\n"
    (tmp_path / "texts.txt").write_text(lines, encoding="utf-8")
    expected = stdout_of("classify", runs["one"], *TEXTS)
    assert stdout_of("classify", runs["one"], "--file", tmp_path / "texts.txt") == expected
    for words in ((), ("-",), ("--file", "-")):
        monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
        assert stdout_of("classify", runs["one"], *words) == expected


def test_a_text_that_is_cut_is_said(runs: dict[str, Path], stdout_of: Any, json_of: Any) -> None:
    long = "cat " * 30
    assert "1 text was cut to the first 24 tokens" in stdout_of(
        "classify", runs["one"], long, "dog"
    )
    assert "2 texts were cut" in stdout_of("classify", runs["one"], long, long)
    cut = [
        text_result["truncated"]
        for text_result in json_of("classify", runs["one"], long, "dog")["texts"]
    ]
    assert cut == [True, False]


@pytest.mark.parametrize(
    ("run", "words", "said"),
    [
        ("one", ("a", "  "), "the text 2 is empty"),
        ("one", ("--file", "none.txt"), "none.txt"),
        ("words", ("a",), "this model has no head for classes"),
    ],
)
def test_what_cannot_be_classified_is_refused(
    run: str, words: tuple[str, ...], said: str, runs: dict[str, Path], refused: Any
) -> None:
    assert said in refused("classify", runs[run], *words)


def test_from_python_it_is_the_same(runs: dict[str, Path], json_of: Any) -> None:
    (row,) = json_of("classify", runs["one"], "the cat")["texts"]
    (result,) = pellucid.classify(pellucid.load(runs["one"]), "the cat")
    assert {share.name: share.probability for share in result.shares} == row["probabilities"]
