"""Training on a text of any size: written, prepared as any user's, and then trained on.

Comes in: a size. Goes out: a contestant for `benchmarks.worker`. It does not know other sizes.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any

from benchmarks.shapes import Shape
from benchmarks.train_pellucid import Updates, job_of
from benchmarks.worker import memory
from pellucid import config
from pellucid.data import next_token_batches
from pellucid.model import assemble
from pellucid.runs.prepare_text import ready_text

MEGABYTE = 10**6


def corpus(*, shape: dict[str, Any], folder: str, megabytes: int) -> Updates:
    """Updates on the bytes of a text of so many megabytes, after pellucid's own preparation."""
    os.environ["PELLUCID_CACHE"] = "off"
    model_shape, place = Shape(**shape), Path(folder) / f"{megabytes}"
    place.mkdir()
    write_text(place / "text.txt", megabytes)
    started = time.perf_counter()
    text = config.Text(
        corpus=config.Files(paths=(str(place / "text.txt"),)),
        tokenizer=config.Bytes(),
        held_out=0.05,
        drop_duplicates=False,
    )
    _, fill = ready_text(text, print)
    prepared = fill(place / "prepared")
    seconds = time.perf_counter() - started
    (place / "text.txt").unlink()
    before, after_preparing = memory("VmRSS"), memory("VmHWM")
    order = next_token_batches(prepared.train.tokens, context_length=model_shape.length, seed=1)
    model = assemble(model_shape.model(), seed=1)
    updates = Updates(job_of(model_shape, model, order.batch, device="cpu", compiled=False), None)
    updates.facts |= {
        "bytes_before": before,
        "preparing_seconds": seconds,
        "preparing_peak_bytes": after_preparing,
        "training_tokens": len(prepared.train.tokens),
    }
    return updates


def write_text(file: Path, megabytes: int) -> None:
    """Words of letters drawn once, in an order that is turned for each line of a megabyte."""
    draws = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(draws.choices(letters, k=draws.randint(2, 9))) for _ in range(5000)]
    block = " ".join(draws.choices(words, k=200_000))[: MEGABYTE - 1]
    with file.open("w", encoding="ascii") as opened:
        for _ in range(megabytes):
            turn = draws.randrange(len(block))
            opened.write(f"{block[turn:]}{block[:turn]}\n")
