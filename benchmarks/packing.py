"""What does it cost to keep the documents of a row apart?

    python -m benchmarks.packing

Updates of the default run (`nano`: 8 rows of 256 tokens of the standard library's documentation),
forward and backward, with documents apart and end to end, in turns and in one process, on the same
batches. Once in wall time with all threads, once in processor time with one, which a busy machine
disturbs less. The optimiser's step, which is the same for both, is left out: the true cost is a
little lower.

Comes in: nothing. Goes out: medians, and a dated JSON file under benchmarks/results/.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.machine import machine
from pellucid.batches import TokenBatch
from pellucid.data import PreparedData, next_token_batches
from pellucid.model import assemble
from pellucid.objectives import NextToken
from pellucid.presets import find
from pellucid.runs.prepare_text import ready_text
from pellucid.training.step import autocast

FOLDER = Path(__file__).parent
CPU = torch.device("cpu")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=40, help="pairs that are timed")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        text, vocab_size = prepared(Path(scratch) / "text")
        results = measure(text, vocab_size, arguments.updates)
    results |= {
        "date": time.strftime("%Y-%m-%d"),
        "machine": machine(),
        "load": os.getloadavg()[0],
        "updates": arguments.updates,
    }
    file = FOLDER / "results" / f"packing-{results['date']}.json"
    file.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(results, indent=1))


def prepared(folder: Path) -> tuple[PreparedData, int]:
    tokenizer, fill = ready_text(find("nano").text, print)
    return fill(folder), tokenizer.vocab_size


def measure(text: PreparedData, vocab_size: int, updates: int) -> dict[str, Any]:
    run = find("nano")
    run = replace(run, model=replace(run.model, vocab_size=vocab_size))
    model, objective = assemble(run.model, seed=run.seed), NextToken()
    orders = {
        name: next_token_batches(
            text.train.tokens,
            context_length=run.model.context_length,
            seed=run.seed,
            documents=starts,
        )
        for name, starts in (("end to end", None), ("apart", text.train.starts))
    }

    def seconds(batch: TokenBatch, clock: Callable[[], float]) -> float:
        started = clock()
        with autocast(CPU, "bfloat16"):
            loss = objective(model, batch).total
        torch.autograd.backward(loss)
        took = clock() - started
        model.zero_grad()
        return took

    def paired(clock: Callable[[], float], threads: int) -> dict[str, float]:
        torch.set_num_threads(threads)
        times: dict[str, list[float]] = {name: [] for name in orders}
        for update in range(-3, updates):
            # the one that goes first alternates, so that neither always finds the caches warm
            for name in sorted(orders, reverse=update % 2 == 0):
                batch = orders[name].batch(max(update, 0) * 8, 8)
                took = seconds(batch, clock)
                if update >= 0:
                    times[name].append(took)
        ratios = [b / a for a, b in zip(times["end to end"], times["apart"], strict=True)]
        return {
            "end_to_end_seconds": statistics.median(times["end to end"]),
            "apart_seconds": statistics.median(times["apart"]),
            "ratio_median": statistics.median(ratios),
            "ratio_of_minima": min(times["apart"]) / min(times["end to end"]),
        }

    threads = torch.get_num_threads()
    return {
        "wall_all_threads": paired(time.perf_counter, threads),
        "processor_one_thread": paired(time.process_time, 1),
    }


if __name__ == "__main__":
    main()
