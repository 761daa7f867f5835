"""What does it cost to watch a training?

    python -m benchmarks.watching

Whole updates of the default run (`nano`: 8 rows of 256 tokens of the standard library's
documentation, optimiser's step included), watched and not, in turns of some updates each, in one
process. Once with the budget of 2% that is the default, once with looks at their full rate,
whatever they cost. Which of a pair goes first alternates, and what counts is the median of the
pairs' ratios: what else the machine does changes slowly beside a pair. In wall time, and in
processor time of this process with one thread, which a busy machine disturbs less.

Comes in: nothing. Goes out: medians over pairs of turns, and a dated JSON file under
benchmarks/results/.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import tempfile
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.machine import machine
from benchmarks.packing import prepared
from pellucid.model import assemble
from pellucid.objectives import NextToken
from pellucid.optim import assemble_optimiser
from pellucid.presets import find
from pellucid.text import Order
from pellucid.training.step import update
from pellucid.vitals import watch
from pellucid.vitals.job_rows import probe_of

HERE = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=12, help="turns of each kind")
    parser.add_argument("--updates", type=int, default=50, help="updates in a turn")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        text, vocab_size = prepared(Path(scratch) / "text")
        order = Order(text.train.tokens, context_length=256, seed=1)
        results: dict[str, Any] = {
            name: measure(order, vocab_size, share, arguments.pairs, arguments.updates)
            for name, share in (("budget of 2%", 0.02), ("no bound", None))
        }
    results |= {
        "date": time.strftime("%Y-%m-%d"),
        "machine": machine(),
        "load": os.getloadavg()[0],
        "pairs": arguments.pairs,
        "updates_in_a_turn": arguments.updates,
    }
    file = HERE / "results" / f"watching-{results['date']}.json"
    file.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(results, indent=1))


def measure(
    order: Order, vocab_size: int, share: float | None, pairs: int, updates: int
) -> dict[str, Any]:
    """Seconds of an update, watched and not, and the ratios of pairs of turns, by both clocks."""
    run = find("nano")
    model = assemble(replace(run.model, vocab_size=vocab_size), seed=1)
    optimiser = assemble_optimiser(run.optimiser, model.named_parameters())
    objective, blocked = NextToken(), torch.zeros(())
    probe = probe_of(model, order.batch(0, 2))
    watched = watch(model, optimiser.parts, probe=probe, max_overhead=share)
    times: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    place = 0

    def turn() -> tuple[float, float]:
        nonlocal place
        gc.collect()
        started, began = time.process_time(), time.perf_counter()
        for _ in range(updates):
            update(
                model,
                objective,
                optimiser,
                order.batch(place, 8),
                factor=1.0,
                clip_norm=None,
                blocked=blocked,
                accumulation=1,
                device=torch.device("cpu"),
                precision="bfloat16",
            )
            place += 8
        processor, wall = time.process_time() - started, time.perf_counter() - began
        return processor / updates, wall / updates

    turn()  # warms up
    for pair in range(pairs):
        # the one that goes first alternates
        for is_watched in (False, True) if pair % 2 else (True, False):
            with watched if is_watched else nullcontext():
                times[is_watched].append(turn())
    return {
        "processor": compared(
            [watched for watched, _ in times[True]], [alone for alone, _ in times[False]]
        ),
        "wall": compared(
            [watched for _, watched in times[True]], [alone for _, alone in times[False]]
        ),
        "said_by_itself": watched.cost.share,
        "looks": watched.cost.looks,
        "updates": 2 * pairs * updates,
    }


def compared(watched: list[float], alone: list[float]) -> dict[str, Any]:
    """Pair by pair: how much longer the watched turn took."""
    ratios = sorted(w / p - 1 for w, p in zip(watched, alone, strict=True))
    quarter = len(ratios) // 4
    return {
        "seconds": statistics.median(alone),
        "watched_seconds": statistics.median(watched),
        "overhead_median": statistics.median(ratios),
        "overhead_middle_half": [ratios[quarter], ratios[-1 - quarter]],
        "overhead_range": [ratios[0], ratios[-1]],
        "overhead_of_sums": sum(watched) / sum(alone) - 1,
    }


if __name__ == "__main__":
    main()
