"""`pellucid tokenizer`: what it prints is what the tokenizer does, in 80 columns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pellucid.cli import main
from pellucid.text import Tokenizer

TEXT = "The cat sat on the mat; the dog, too.\nThe  cats sit on lower mats.\n" * 12


@pytest.fixture
def page(tmp_path: Path) -> str:
    (tmp_path / "page.txt").write_text(TEXT + "Zebra!", encoding="utf-8")
    return str(tmp_path / "page.txt")


@pytest.mark.parametrize("kind", ["bytes", "characters", "words", "byte-pairs", "wordpiece"])
def test_trained_tokenizer_is_the_one_that_is_reported(
    kind: str, page: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "t.json")
    words = ["tokenizer", "train", page, "--kind", kind, "--vocab-size", "270", "--out", out]
    assert main([*words, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    tokenizer = Tokenizer.load(Path(out))
    assert said["sha256"] == tokenizer.sha256
    assert said["tokens"] == len(tokenizer.encode(Path(page).read_text("utf-8")))
    assert main(words) == 2
    assert "is not overwritten" in " ".join(capsys.readouterr().err.split())


def test_show_gives_ids_bytes_and_merges(
    page: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "t.json")
    assert main(["tokenizer", "train", page, "--vocab-size", "300", "--out", out]) == 0
    capsys.readouterr()
    text = "The cat é"
    assert main(["tokenizer", "show", text, "--tokenizer", out, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    raw = bytes.fromhex("".join(token["bytes"] for token in said["tokens"]))
    assert raw.decode() == said["decoded"] == text
    assert said["round_trip"]
    assert said["merges"][0]["steps"][-1]["symbols"] == ["The"]
    assert main(["tokenizer", "show", text, "--tokenizer", out]) == 0
    shown = capsys.readouterr().out
    assert "54 68 65" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_show_reads_the_tokenizer_of_a_run(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tokenizer", "show", "hé", "--tokenizer", str(trained), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [token["bytes"] for token in said["tokens"]] == ["68", "c3", "a9"]


def test_show_says_what_does_not_come_back(
    page: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "t.json")
    words = ["--kind", "wordpiece", "--vocab-size", "90", "--lowercase", "--out", out]
    assert main(["tokenizer", "train", page, *words]) == 0
    assert main(["tokenizer", "show", "The  cat ж", "--tokenizer", out]) == 0
    shown = capsys.readouterr().out
    assert "not given back as it was: 'the cat'" in shown
    assert "unknown" in shown


def test_compare_marks_what_cannot_be_compared(
    page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tokenizer", "compare", page, "--vocab-size", "300", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    comparable = {kind for kind, row in rows.items() if row["bits_per_byte_comparable"]}
    assert {"bytes", "byte-pairs"} <= comparable
    assert not {"words", "wordpiece"} & comparable  # Zebra; white space
    assert rows["bytes"]["bytes_per_token"] == 1
    assert rows["byte-pairs"]["tokens"] < rows["bytes"]["tokens"]
    assert rows["words"]["unknown"] > 0
    assert main(["tokenizer", "compare", page, "--vocab-size", "300"]) == 0
    shown = capsys.readouterr().out
    assert "lower-cased" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_vocabulary_that_is_too_small_is_refused(
    page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tokenizer", "train", page, "--vocab-size", "5", "--out", "never.json"]) == 2
    assert "vocab_size" in capsys.readouterr().err
