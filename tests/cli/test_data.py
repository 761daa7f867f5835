from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pellucid.cli import main
from support.tiny import TINY

BYTES = "--set=text.tokenizer=Bytes"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Forty texts, one of them twice more, and one empty."""
    texts = [f"this is the text number {index}\n" for index in range(40)]
    file = tmp_path / "data.jsonl"
    rows = [*texts, texts[3], texts[3], ""]
    file.write_text("".join(json.dumps({"body": text}) + "\n" for text in rows), "utf-8")
    return file


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    code = main([str(word) for word in words])
    return code, capsys.readouterr().out


def test_report_counts_what_is_there(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, printed = run(capsys, "data", "report", table, "--field=body", BYTES, "--json")
    report: dict[str, Any] = json.loads(printed)
    n_bytes = sum(len(f"this is the text number {i}\n") for i in [*range(40), 3, 3])
    assert code == 0
    assert (report["documents"], report["bytes"]) == (42, n_bytes)
    assert report["tokens"] == n_bytes + 2 * 42
    assert report["bytes_per_token"] == n_bytes / (n_bytes + 2 * 42)
    assert (report["rows"], report["empty_rows"], report["duplicates"]) == (43, 1, 2)
    code, printed = run(
        capsys, "data", "report", table, "--field=body", BYTES, "--set=text.drop_duplicates=true"
    )
    assert code == 0
    assert "documents        40," in printed
    assert "duplicates       2 (52 bytes; dropped)" in printed


def test_train_on_a_table_says_and_keeps_what_was_read(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = [f"--set={setting}" for setting in (*TINY, "text.drop_duplicates=true")]
    words = ("train", table, "--field=body", "--steps=2", "--out", tmp_path / "run", *settings)
    code, printed = run(capsys, *words)
    assert code == 0
    assert "40 documents from 1 file, 1 empty row skipped, 2 exact duplicates dropped" in printed
    read = json.loads((tmp_path / "run" / "text" / "text.json").read_text("utf-8"))["read"]
    assert (read["rows"], read["empty_rows"], read["duplicates"]) == (43, 1, 2)
    code, printed = run(capsys, "evaluate", tmp_path / "run", table, "--field=body", "--json")
    assert code == 0
    assert json.loads(printed)["bytes"] > 0


def test_field_without_files_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    code, printed = run(capsys, "train", "--field=body", "--json")
    assert code == 2
    assert "name the files too" in json.loads(printed)["message"]


def test_report_counts_what_the_tokenizer_cannot_spell_or_give_back(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["data", "report", table, "--field=body"]
    small_tokenizer = '--set=text.tokenizer={kind = "Words", vocab_size = 8}'
    report: dict[str, Any] = json.loads(run(capsys, *words, small_tokenizer, "--json")[1])
    assert report["unknown_tokens"] >= 30  # a number each, of which five words leave no room
    assert report["changed_documents"] == report["documents"] == 42
    assert "42 documents do not come back" in run(capsys, *words, small_tokenizer)[1]
    assert "come back" not in run(capsys, *words, BYTES)[1]
