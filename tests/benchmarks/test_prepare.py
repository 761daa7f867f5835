"""The benchmark of preparing text: all contestants encode the same tokens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import prepare

ROWS = [f"The {n}th row tells of {n * n} small things." for n in range(200)]


def test_all_encode_the_same_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PELLUCID_CACHE", "off")
    text = tmp_path / "rows.jsonl"
    text.write_text("".join(json.dumps({"text": row}) + "\n" for row in ROWS), encoding="utf-8")
    tokenizer = prepare.train(text, 300, tmp_path)
    makers = (prepare.library_alone, prepare.library_array, prepare.pellucid)
    alone, array, ours = (
        make(text=str(text), tokenizer=str(tokenizer), folder=str(tmp_path / make.__name__))(1)
        for make in makers
    )
    assert alone == array
    assert ours["tokens"] == alone["tokens"] + 2 * len(ROWS)  # with begin and end


def test_the_table_has_the_ratios_with_their_range() -> None:
    summary = {"seconds": 2.0, "to_alone": [1.0, 1.1, 1.3], "peak_bytes": 250e6}
    summary["to_alone_by_processor"] = [1.0, 1.05, 1.2]
    case = {"text": "a.jsonl", "bytes": 10**7, "summary": {prepare.PELLUCID: summary}}
    machine = {"processor": "P", "cores": 2, "capability": "C", "torch": "2", "python": "3"}
    head = {"command": "c", "date": "d", "threads": 2, "commit": "x", "load_before": 0.0}
    table = prepare.table(head | {"machine": machine, "cases": [case]})
    assert "| a.jsonl | 10 | pellucid | 2.00 | 1.10 (1.00 to 1.30; 1.05) | 250 |" in table
