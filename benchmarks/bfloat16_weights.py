"""What weights in bfloat16 do to the loss, to memory and to the time of an update.

    python -m benchmarks.bfloat16_weights

Each seed trains a small model of bytes four times, in turns: with float32 weights, with bfloat16
weights and a remainder, and with bfloat16 weights that are rounded at random. The fourth rounds
bfloat16 weights to the nearest after each update, which pellucid does not offer. Products are in
bfloat16 in all four. Compared are the held-out losses at the end (in nats per byte, and their
differences from float32 with the same seed), the bytes of weights, gradients and moments, and the
processor's time per update.

Comes in: a text file; left out, the documentation of Python's standard library. Goes out:
`results/bfloat16-weights-DATE.json`, and lines.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, nullcontext
from itertools import pairwise
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

import pellucid
from benchmarks.machine import header, write
from benchmarks.train_table import machine_line
from benchmarks.workers import print_progress
from pellucid import rounded_weights
from pellucid.rounded_weights import is_rounded
from pellucid.training import Evaluated, Event, Job, Observer, StepFinished

VARIANTS = {
    "float32": "float32",
    "remainder": "bfloat16_remainder",
    "stochastic": "bfloat16_stochastic",
    "nearest": "bfloat16_stochastic",  # with the rounding replaced
}
SETTINGS = (
    "text.tokenizer=Bytes",
    "model.context_length=64",
    "model.decoder.dropout=0",
    "training.batch_size=16",
    "training.precision=bfloat16",
    "training.checkpoint_every=100000",
    "training.evaluate_tokens=65536",
    "training.sentence=the",
)


def main() -> None:
    parser = argparse.ArgumentParser(description="what weights in bfloat16 cost and save")
    parser.add_argument("--data", type=Path, help="a text file")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--set", nargs="*", default=[], help="further settings")
    parser.add_argument("--into", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    result = header("benchmarks.bfloat16_weights", parser, arguments)
    torch.set_num_threads(arguments.threads)
    result["runs"] = []
    for seed in range(1, arguments.seeds + 1):
        for variant in VARIANTS:
            row = train(variant, seed, arguments)
            result["runs"].append(row)
            print_progress(
                f"seed {seed} {variant:<10} {row['loss_nats']:.4f} nats, "
                f"{row['milliseconds']:.1f} ms of the processor per update, {row['bytes']}"
            )
            write(result, arguments.into, "bfloat16-weights")
    result["differences"] = {name: difference(result["runs"], name) for name in VARIANTS}
    for name, row in result["differences"].items():
        print_progress(f"{name:<10} {row['mean']:+.4f} nats from float32 (each seed {row['each']})")
    write(result, arguments.into, "bfloat16-weights")


def train(variant: str, seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """One run: its last held-out loss, its memory, and its time per update."""
    losses: list[float] = []
    sizes: dict[str, int] = {}
    marks: list[float] = []

    @contextmanager
    def watch(job: Job, observer: Observer) -> Generator[Observer]:
        yield lambda event: None
        sizes.update(measure_bytes(job))

    def observe(event: Event) -> None:
        if isinstance(event, Evaluated):
            losses.append(event.loss_nats)
        if isinstance(event, StepFinished):
            marks.append(time.process_time())

    rounding = (
        patch.object(rounded_weights, "round_stochastically", Tensor.bfloat16)
        if variant == "nearest"
        else nullcontext()
    )
    with tempfile.TemporaryDirectory() as folder, rounding:
        pellucid.train(
            [] if arguments.data is None else [arguments.data],
            out=Path(folder) / "run",
            steps=arguments.steps,
            seed=seed,
            settings=[
                *SETTINGS,
                f"training.evaluate_every={arguments.steps}",
                f"training.weights={VARIANTS[variant]}",
                *arguments.set,
            ],
            observers=[observe],
            watchers=[watch],
            show=False,
        )
    seconds = sorted(after - before for before, after in pairwise(marks))
    return {
        "variant": variant,
        "seed": seed,
        "loss_nats": losses[-1],
        "milliseconds": 1000 * seconds[len(seconds) // 2],
        "bytes": sizes,
    }


def measure_bytes(job: Job) -> dict[str, int]:
    """The bytes of the tensors that a training holds between updates, and of its gradients."""
    parameters = list(job.model.parameters())
    low_bits = [getattr(p, "low_bits", None) for p in parameters if is_rounded(p)]
    return {
        "weights": sum(p.nbytes for p in parameters),
        "remainders": sum(bits.nbytes for bits in low_bits if bits is not None),
        "gradients": sum(p.nbytes for p in parameters),  # each has the type of its parameter
        "moments": sum(tensor.nbytes for tensor in job.optimiser.state_tensors().values()),
    }


def difference(runs: list[dict[str, Any]], variant: str) -> dict[str, Any]:
    """By how much a variant's loss is above the loss of float32 with the same seed, in nats."""
    by_seed = {(row["variant"], row["seed"]): row["loss_nats"] for row in runs}
    differences = [
        loss - by_seed["float32", seed] for (name, seed), loss in by_seed.items() if name == variant
    ]
    return {
        "mean": mean(differences),
        "deviation": stdev(differences) if len(differences) > 1 else None,
        "each": [round(x, 5) for x in differences],
    }


def table(results: Mapping[str, Any]) -> str:
    """The results as Markdown."""
    lines = [
        f"{machine_line(results)}\n",
        "| weights | held-out loss, nats per byte | above float32, each seed | mean"
        " (standard deviation) | ms of the processor per update"
        " | MB: weights, remainders, gradients, moments |",
        "|" + "---|" * 6,
    ]
    for variant in VARIANTS:
        rows = [row for row in results["runs"] if row["variant"] == variant]
        distance = difference(results["runs"], variant)
        spread = "" if distance["deviation"] is None else f" ({distance['deviation']:.4f})"
        cells = [
            ", ".join(f"{row['loss_nats']:.4f}" for row in rows),
            ", ".join(f"{x:+.4f}" for x in distance["each"]),
            f"{distance['mean']:+.4f}{spread}",
            f"{median(row['milliseconds'] for row in rows):.1f}",
            ", ".join(f"{n_bytes / 1e6:.2f}" for n_bytes in rows[0]["bytes"].values()),
        ]
        lines.append(f"| {variant} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
