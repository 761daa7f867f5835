"""A corpus needs no memory for its texts: measured in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.nightly import sampled

#: Memory that preparing may take beyond the process after all imports. Buffers, batches at the
#: library and the tokenizer's words are in it; all texts, or all ids, would not be.
BOUND = 150 * 2**20

CHILD = """
import json, resource, sys
from pathlib import Path
from pellucid import config
from pellucid.runs.prepare_text import ready_text
import pellucid.data.assemble

def peak():
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

path, field, kind, place = sys.argv[1:]
text = config.Text(
    corpus=config.Files(paths=(path,), field=field or None),
    tokenizer=config.Bytes() if kind == "bytes" else config.BytePairs(vocab_size=400),
    held_out=0.1,
    drop_duplicates=True,
)
before = peak()
tokenizer, fill = ready_text(text, lambda what: None)
manifest = fill(Path(place) / "text").manifest
facts = manifest.train
print(json.dumps([peak() - before, manifest.split_by, facts.n_bytes, facts.n_tokens]))
"""


def prepared(path: Path, field: str, kind: str, place: Path) -> tuple[int, str, int, int]:
    words = [sys.executable, "-c", CHILD, str(path), field, kind, str(place)]
    process = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    grown, cut_by, n_bytes, n_tokens = json.loads(process.stdout)
    return grown, cut_by, n_bytes, n_tokens


LINE = "It is a truth universally acknowledged, that a memory is bounded;"


def book(path: Path, n_bytes: int, end: str) -> None:
    with path.open("w", encoding="utf-8") as file:
        for _ in range(n_bytes // (1000 * len(LINE + end))):
            file.write((LINE + end) * 1000)


def table(path: Path, n_bytes: int) -> None:
    with path.open("w", encoding="utf-8") as file:
        for number in range(n_bytes // (10 * len(LINE))):
            file.write(json.dumps({"text": f"{number // 1000} {number % 1000} {LINE * 10}"}) + "\n")


@pytest.mark.skipif(sys.platform == "win32", reason="no resource module")
@pytest.mark.parametrize("end", ["\n", ""], ids=["lines", "a single line"])
def test_one_long_text_is_prepared_within_the_bound(tmp_path: Path, end: str) -> None:
    book(tmp_path / "book.txt", 60_000_000, end)
    grown, cut_by, n_bytes, n_tokens = prepared(
        tmp_path / "book.txt", "", "bytes", tmp_path / "run"
    )
    assert grown < BOUND
    assert (cut_by, n_tokens) == ("tails", n_bytes + 2)
    assert n_bytes == pytest.approx(54_000_000, rel=0.02)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no resource module")
@pytest.mark.parametrize("rows", sampled([True, False], 2), ids=["rows", "a single text"])
def test_corpus_is_learned_from_and_encoded_within_the_bound(tmp_path: Path, rows: bool) -> None:
    path = tmp_path / ("a.jsonl" if rows else "a.txt")
    if rows:
        table(path, 200_000_000)
    else:
        book(path, 200_000_000, "\n")
    grown, cut_by, n_bytes, _ = prepared(path, "text" if rows else "", "pairs", tmp_path / "run")
    # the trainer takes 256 pieces at a time, and keeps the words it counts
    assert grown < 2.5 * BOUND
    assert cut_by == ("documents" if rows else "tails")
    assert n_bytes > 170_000_000
