"""How cost grows: with length, vocabulary, depth, width, and the size of the corpus.

    python -m benchmarks.scale
    python -m benchmarks.scale --axis length width

Updates of pellucid (not watched) around one shape, one number changed at a time, each point in a
process of its own; all points of an axis take turns whose order alternates, with the machine's
limits among them. The table compares each speed with arithmetic: FLOPs of the update over the
measured peak of matrix products. It compares each peak of memory with the count of
`pellucid.counting`: weights, gradients, moments, and activations.

Lengths share one number of tokens an update. A corpus is generated, written, and goes through
pellucid's own preparation as bytes, up to 1 GB. The times are of updates on it, which should not
depend on its size.

Comes in: flags. Goes out: tables on standard output, and a dated JSON file under
benchmarks/results/; the plots are drawn from it by `benchmarks.performance_page`.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.machine import best_of, header, limits_contestant, write
from benchmarks.scale_page import tables
from benchmarks.shapes import ADAMW, Shape, as_json, write_ids
from benchmarks.workers import Contestant, in_turns, print_progress, seconds, started, steps_for
from pellucid.counting import memory

FOLDER = Path(__file__).parent
BASE = Shape("base", vocab=4096, length=256, batch=8, layers=4, heads=4, width=256)
#: Tokens of an update where lengths are compared.
TOKENS = 8192
AXES = {
    "length": [512, 1024, 2048, 4096, 8192],
    "vocabulary": [1024, 4096, 16_384, 65_536, 262_144],
    "depth": [2, 4, 8, 16],
    "width": [128, 256, 512, 1024],
    "corpus": [1, 10, 100, 1000],
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--axis", nargs="+", choices=list(AXES), default=list(AXES))
    parser.add_argument("--points", type=int, nargs="+", help="instead of an axis's own")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3, help="rounds of turns that count")
    parser.add_argument("--seconds", type=float, default=1.0, help="of a turn, about")
    parser.add_argument("--out", type=Path, default=FOLDER / "results")
    arguments = parser.parse_args()
    results = header("benchmarks.scale", parser, arguments)
    results |= {"base": as_json(BASE), "said": BASE.describe(), "tokens_across_lengths": TOKENS}
    results["axes"] = {axis: measure(axis, arguments) for axis in arguments.axis}
    write(results, arguments.out, "scale")
    print("\n\n".join(tables(results).values()))


def shape_at(axis: str, value: int) -> Shape:
    """The base with one number changed."""
    match axis:
        case "length":
            return replace(BASE, length=value, batch=max(1, TOKENS // value))
        case "vocabulary":
            return replace(BASE, vocab=value)
        case "depth":
            return replace(BASE, layers=value)
        case "width":
            # heads of 64 features at every width
            return replace(BASE, width=value, heads=max(1, value // 64))
        case "corpus":
            # bytes, and the token that ends a text
            return replace(BASE, vocab=257, width=128, heads=2)
        case _:
            raise ValueError(axis)


def contestant(axis: str, value: int, folder: Path) -> Contestant:
    """The point of an axis as a contestant."""
    shape = shape_at(axis, value)
    setup: dict[str, Any] = {"shape": as_json(shape)}
    if axis == "corpus":
        setup |= {"folder": str(folder), "megabytes": value}
        return Contestant(
            str(value), "benchmarks.scale_contestants:corpus", setup, allocator_settled=True
        )
    point_folder = folder / str(value)
    point_folder.mkdir()
    write_ids(shape, None, point_folder / "ids.npy")
    setup |= {"folder": str(point_folder), "device": "cpu", "compiled": False}
    setup |= {"watching": None, "shared": False}
    return Contestant(
        str(value), "benchmarks.train_pellucid:pellucid", setup, allocator_settled=True
    )


def measure(axis: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """All turns of an axis."""
    print_progress(f"{axis}")
    values = arguments.points or AXES[axis]
    with tempfile.TemporaryDirectory() as folder:
        contestants = [contestant(axis, value, Path(folder)) for value in values]
        with started([limits_contestant(), *contestants], arguments.threads) as workers:
            for worker in workers:
                worker.work(1)
            pace = [worker.work(1).wall for worker in workers[1:]]
            turns = in_turns(workers, arguments.turns, steps_for(pace, arguments.seconds))
            facts = {worker.name: worker.facts for worker in workers}
    limits = best_of(turns.pop("limits"))
    return {
        "limits": limits,
        "points": [
            point(axis, value, turns[str(value)], facts[str(value)], limits) for value in values
        ],
        "turns": {name: [vars(turn) for turn in own_turns] for name, own_turns in turns.items()},
    }


def point(
    axis: str, value: int, own_turns: list[Any], facts: dict[str, Any], limits: dict[str, Any]
) -> dict[str, Any]:
    """A point's numbers, measured and counted."""
    shape, precision = shape_at(axis, value), facts["precision"]
    speeds = sorted(shape.tokens * turn.steps / turn.wall for turn in own_turns)
    rows = memory(shape.model(), ADAMW, sequences=shape.batch, precision=precision)
    peak = limits["best"][precision]
    return {
        "value": value,
        "shape": as_json(shape),
        "precision": precision,
        "flops": shape.flops,
        "tokens_per_second": shape.tokens / seconds(own_turns),
        "tokens_per_second_range": [speeds[0], speeds[-1]],
        "tokens_per_second_at_peak": shape.tokens * peak / shape.flops,
        "share_of_peak": shape.flops / seconds(own_turns) / peak,
        "share_of_peak_by_processor": shape.flops
        / seconds(own_turns, "processor")
        / limits["by_processor"][precision],
        "bytes": own_turns[-1].peak_bytes - facts["bytes_before"],
        "counted_bytes": sum(row.n_bytes for row in rows),
        **{name: facts[name] for name in facts if name.startswith(("preparing", "training_"))},
    }


if __name__ == "__main__":
    main()
