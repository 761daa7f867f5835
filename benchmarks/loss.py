"""Linear head and cross-entropy alone, over a large vocabulary: seconds, memory, and how right?

    python -m benchmarks.loss

Forward and backward of one loss, with gradients of the states and of the head's matrix. The losses
are torch's `linear` and `cross_entropy` (in bf16 with the logits in float32, as Hugging Face's
models have it) and the same compiled (`--compiled`). Then torch's own `linear_cross_entropy` with
its default chunks and with chunks of 512 rows, and pellucid's. Each runs in its own process with
the system's allocator as it is, or all with the settings of pellucid's command line (`--settled`).
They work one at a time, in turns whose order alternates, first in one dtype, then in the other.

All are given the same numbers, which bf16 can hold exactly, and are compared with a reference in
float64: the loss itself, and the gradients (in full of the states, of 512 rows of the matrix).

Comes in: flags. Goes out: tables on standard output, and a dated JSON file under
benchmarks/results/. Extra memory is the peak of the process above what it held with its inputs;
of the compiled one that is the compiler's too.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.machine import best_of, header, limits_contestant, write
from benchmarks.train_table import limits_line, machine_line
from benchmarks.workers import (
    Contestant,
    Turn,
    Worker,
    in_turns,
    print_progress,
    ratio,
    seconds,
    started,
)

FOLDER = Path(__file__).parent
MAKE = "benchmarks.loss_contestants"
REFERENCE = "linear and cross_entropy"
KINDS = {
    "naive": REFERENCE,
    "torch_default": "torch's linear_cross_entropy, default chunks",
    "torch_chunks": "torch's linear_cross_entropy, chunks of 512",
    "pellucid": "pellucid",
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vocab", type=int, nargs="+", default=[50_257, 128_000])
    parser.add_argument("--rows", type=int, nargs="+", default=[2048, 256])
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--settled", action="store_true")
    parser.add_argument("--out", type=Path, default=FOLDER / "results")
    arguments = parser.parse_args()
    results = header("benchmarks.loss", parser, arguments)
    results |= {"settled": arguments.settled, "width": arguments.width, "cases": []}
    for vocab in arguments.vocab:
        for rows in arguments.rows:
            results["cases"].append(measure(vocab, rows, arguments))
    name = "loss-settled" if arguments.settled else "loss"
    write(results, arguments.out, name)
    print(tables(results))


def measure(vocab: int, rows: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """All turns of one size."""
    print_progress(f"vocabulary {vocab:,}, {rows:,} rows")
    size = {"vocab": vocab, "rows": rows, "width": arguments.width}
    kinds = dict(KINDS) | ({"compiled": f"{REFERENCE}, compiled"} if arguments.compiled else {})
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "reference.safetensors")
        setup = {**size, "file": file}
        with started([Contestant("reference", f"{MAKE}:reference", setup)], arguments.threads):
            pass  # it is written where it is made
        first: dict[str, Turn] = {}
        turns: dict[str, list[Turn]] = {"limits": []}
        held_bytes: dict[str, int] = {}
        # one dtype after another: with kept memory, the logits of all of them fill 24 GB
        for dtype in arguments.dtypes:
            contestants = [
                Contestant(
                    f"{label}, {dtype}",
                    f"{MAKE}:contestant",
                    {"file": file, "kind": kind, "dtype": dtype},
                    allocator_settled=arguments.settled,
                )
                for kind, label in kinds.items()
            ]
            with started([limits_contestant(), *contestants], arguments.threads) as workers:
                first |= warmed(workers, arguments.settled)
                own_turns = in_turns(workers, arguments.turns, 1)
                held_bytes |= {worker.name: worker.held_bytes for worker in workers}
            turns["limits"] += own_turns.pop("limits")
            turns |= own_turns
    limits = best_of(turns.pop("limits"))
    flops = 6 * vocab * rows * arguments.width
    return size | {
        "flops": flops,
        "limits": limits,
        "summary": {
            name: {
                "seconds": seconds(own_turns),
                "processor_seconds": seconds(own_turns, "processor"),
                "faster_than_naive": faster(turns, name, "wall"),
                "faster_than_naive_by_processor": faster(turns, name, "processor"),
                "share_of_peak": flops
                / seconds(own_turns)
                / limits["best"][name.rpartition(", ")[2]],
                "extra_bytes": own_turns[-1].peak_bytes - held_bytes[name],
                **first[name].found,
            }
            for name, own_turns in turns.items()
        },
        "turns": {name: [vars(turn) for turn in own_turns] for name, own_turns in turns.items()},
    }


def warmed(workers: Sequence[Worker], allocator_settled: bool) -> dict[str, Turn]:
    """The first update of each.

    What keeps its memory does three more: it comes to rest after a few. The limits, which come
    first, keep none; workers that take ten seconds and more are not warmed up.
    """
    first = {worker.name: worker.work(1) for worker in workers}
    for worker in workers[1:]:
        if allocator_settled and first[worker.name].wall < 10:
            worker.work(3)
    return first


def faster(turns: dict[str, list[Turn]], name: str, clock: str) -> float:
    """How many times as fast as the naive one in the same precision."""
    naive = f"{REFERENCE}, {name.rpartition(', ')[2]}"
    return ratio(turns[naive], turns[name], clock)


def tables(results: dict[str, Any]) -> str:
    """The results as Markdown."""
    settings = "pellucid's command line's" if results["settled"] else "the system's"
    parts = [f"{machine_line(results)} Allocator settings: {settings}, for all."]
    for case in results["cases"]:
        parts.append(
            f"**Vocabulary {case['vocab']:,}, {case['rows']:,} rows of {case['width']}**. "
            f"{limits_line(case['limits'])} Products: {case['flops'] / 1e9:,.0f} GFLOP.\n\n"
            "| | ms | faster than naive (by processor time) | share of peak | extra MB "
            "| loss off by | gradient off by, states | matrix |\n"
            "|---|---|---|---|---|---|---|---|\n"
            + "\n".join(row(name, figures) for name, figures in case["summary"].items())
        )
    return "\n\n".join(parts)


def row(name: str, figures: dict[str, Any]) -> str:
    """A contestant's line; gradients are off by a share of the reference's norm."""
    by_processor = figures["faster_than_naive_by_processor"]
    return (
        f"| {name} | {figures['seconds'] * 1e3:,.0f} | {figures['faster_than_naive']:.2f} "
        f"({by_processor:.2f}) | {figures['share_of_peak']:.0%} | "
        f"{figures['extra_bytes'] / 1e6:,.0f} | "
        f"{figures['loss_error']:.1e} | {figures['states_error']:.1e} | "
        f"{figures['matrix_error']:.1e} |"
    )


if __name__ == "__main__":
    main()
