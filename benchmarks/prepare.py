"""Text prepared for training, next to the batch encoding of the library `tokenizers`.

    python -m benchmarks.prepare --texts book.jsonl web.jsonl

All encode the same rows of text with the same byte-level BPE, which pellucid trains on the first
file. The library's `encode_batch` has all texts in memory and nothing else to do. "As an array"
also puts the ids into one array on disk. pellucid prepares as for a run: it reads the file, drops
duplicates, and divides the rows into training and held-out text. It encodes them with bounded
memory, and writes arrays with their checksums. Each works in a process of its own, in turns.

Comes in: files of JSON Lines with a field "text". Goes out: a table on standard output, and a dated
JSON file under benchmarks/results/. Training a tokenizer is not part of any time.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.machine import header, write
from benchmarks.train_table import machine_line
from benchmarks.workers import Contestant, in_turns, ratios, seconds, started

FOLDER = Path(__file__).parent
LIBRARY, ARRAY, PELLUCID = "encode_batch", "encode_batch, as an array", "pellucid"
#: Rows that the library gets at once where ids go to disk.
_ROWS = 1000


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--texts", type=Path, nargs="+", required=True)
    parser.add_argument("--vocab", type=int, default=8192)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--out", type=Path, default=FOLDER / "results")
    arguments = parser.parse_args()
    results = header("benchmarks.prepare", parser, arguments)
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = train(arguments.texts[0], arguments.vocab, Path(folder))
        results["cases"] = [
            measure(text, tokenizer, Path(folder), arguments) for text in arguments.texts
        ]
    write(results, arguments.out, "prepare")
    print(table(results))


def train(text: Path, vocab_size: int, folder: Path) -> Path:
    """A tokenizer of the text, as a file."""
    from pellucid.tokenizers.train import train_byte_pairs

    file = folder / "tokenizer.json"
    train_byte_pairs(rows_of(text), vocab_size).save(file)
    return file


def rows_of(text: Path) -> list[str]:
    """The texts of a file."""
    with text.open(encoding="utf-8") as lines:
        return [json.loads(line)["text"] for line in lines]


def measure(
    text: Path, tokenizer: Path, folder: Path, arguments: argparse.Namespace
) -> dict[str, Any]:
    """All turns of one text."""
    setup = {"text": str(text.resolve()), "tokenizer": str(tokenizer)}
    makers = {LIBRARY: "library_alone", ARRAY: "library_array", PELLUCID: "pellucid"}
    contestants = [
        Contestant(name, f"benchmarks.prepare:{make}", setup | {"folder": str(folder / make)})
        for name, make in makers.items()
    ]
    with started(contestants, arguments.threads) as workers:
        tokens = {worker.name: worker.work(1).found["tokens"] for worker in workers}
        turns = in_turns(workers, arguments.turns, 1)
    return {
        "text": text.name,
        "bytes": text.stat().st_size,
        "tokens": tokens,
        "summary": {
            name: {
                "seconds": seconds(own_turns),
                "to_alone": sorted(ratios(own_turns, turns[LIBRARY])),
                "to_alone_by_processor": sorted(ratios(own_turns, turns[LIBRARY], "processor")),
                "peak_bytes": own_turns[-1].peak_bytes,
            }
            for name, own_turns in turns.items()
        },
        "turns": {name: [vars(turn) for turn in own_turns] for name, own_turns in turns.items()},
    }


Work = Callable[[int], dict[str, Any]]


def library_alone(*, text: str, tokenizer: str, folder: str) -> Work:
    """The library, with all texts in memory."""
    del folder
    encoder, texts = _library(tokenizer), rows_of(Path(text))

    def work(steps: int) -> dict[str, Any]:
        n_tokens = 0
        for _ in range(steps):
            encodings = encoder.encode_batch(texts, add_special_tokens=False)
            n_tokens = sum(map(len, encodings))
        return {"tokens": n_tokens}

    return work


def library_array(*, text: str, tokenizer: str, folder: str) -> Work:
    """The library, from the file to one array on disk."""
    import numpy as np

    encoder = _library(tokenizer)

    def work(steps: int) -> dict[str, Any]:
        n_tokens = 0
        for _ in range(steps):
            texts, parts = rows_of(Path(text)), []
            for first in range(0, len(texts), _ROWS):
                rows = texts[first : first + _ROWS]
                encodings = encoder.encode_batch_fast(rows, add_special_tokens=False)
                parts += [np.array(encoding.ids, dtype=np.uint16) for encoding in encodings]
            ids = np.concatenate(parts)
            np.save(f"{folder}.npy", ids)
            n_tokens = len(ids)
        return {"tokens": n_tokens}

    return work


def pellucid(*, text: str, tokenizer: str, folder: str) -> Work:
    """The preparation of a run, without a cache."""
    from pellucid import config
    from pellucid.runs.prepare_text import ready_text

    os.environ["PELLUCID_CACHE"] = "off"
    settings = config.Text(
        corpus=config.Files(paths=(text,), field="text"),
        tokenizer=config.FromFile(path=tokenizer),
        held_out=0.05,
        drop_duplicates=True,
    )

    def work(steps: int) -> dict[str, Any]:
        n_tokens = 0
        for _ in range(steps):
            shutil.rmtree(folder, ignore_errors=True)
            _, fill = ready_text(settings, lambda line: None)
            data = fill(Path(folder))
            n_tokens = len(data.train.tokens) + len(data.held_out.tokens)
        return {"tokens": n_tokens}

    return work


def _library(file: str) -> Any:
    import tokenizers

    return tokenizers.Tokenizer.from_file(file)


def table(results: dict[str, Any]) -> str:
    """Markdown of all texts."""
    lines = [
        machine_line(results),
        "",
        "| text | MB | | seconds | times `encode_batch` (range; by processor time) | peak MB |",
        "|---|---|---|---|---|---|",
    ]
    for case in results["cases"]:
        for name, summary in case["summary"].items():
            by_clock, by_processor = summary["to_alone"], summary["to_alone_by_processor"]
            times = (
                f"{statistics.median(by_clock):.2f} ({by_clock[0]:.2f} to {by_clock[-1]:.2f}; "
                f"{statistics.median(by_processor):.2f})"
            )
            lines.append(
                f"| {case['text']} | {case['bytes'] / 1e6:.0f} | {name} "
                f"| {summary['seconds']:.2f} | {'' if name == LIBRARY else times} "
                f"| {summary['peak_bytes'] / 1e6:,.0f} |"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
