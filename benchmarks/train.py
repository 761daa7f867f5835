"""How fast does it train? Updates of pellucid and of its peers, side by side.

    python -m benchmarks.train --nanogpt nanoGPT
    python -m benchmarks.train --nanogpt nanoGPT --device cuda

One shape, one batch, the same ids, the same clipping and AdamW for all; each contestant in a
process of its own, at work one at a time, in turns whose order alternates. Peers run at their best
settings: nanoGPT as its scripts have it (float32 on a CPU, its only mode there); Hugging Face's
GPT-2 in float32 and in bf16; litgpt and x-transformers in float32 and bf16. Hugging Face's in bf16
also runs with the settings that pellucid's command line gives its own process. `--compiled` adds
torch.compile on a CPU; on CUDA all are compiled.

Parity comes first. The same weights go into nanoGPT, Hugging Face's model and pellucid. Their
float32 losses on the first two rows must agree to 1e-4, and in bf16 to 2e-2, or nothing is
measured. litgpt and x-transformers cannot take these weights (rotary positions; other projections).
They must multiply a token with as many weights, and the table compares their first loss with ln V.

Comes in: flags. Goes out: a table on standard output, and a dated JSON file under
benchmarks/results/. Building, checking and a first turn are left out of the times. On CUDA all are
built and warmed up at the same time, because most of this is a processor's work.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.machine import (
    available_bytes,
    best_of,
    commit,
    has_cuda,
    header,
    limits_contestant,
    write,
)
from benchmarks.shapes import SHAPES, Shape, add_numbers, as_asked, as_json, write_ids
from benchmarks.train_table import summary, tables
from benchmarks.workers import (
    Contestant,
    in_turns,
    print_progress,
    started,
    steps_for,
    work_together,
)
from pellucid.counting import parameter_count
from pellucid.machine import installed_versions

FOLDER = Path(__file__).parent
FLOAT32_TOLERANCE, BFLOAT16_TOLERANCE = 1e-4, 2e-2
PEERS, PELLUCID = "benchmarks.train_peers", "benchmarks.train_pellucid"


def flags() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", nargs="+", choices=list(SHAPES), help="default: char mid")
    add_numbers(parser)
    parser.add_argument("--text", type=Path, help="train on its bytes instead of on drawn ids")
    parser.add_argument("--nanogpt", type=Path, help="a checkout of nanoGPT; left out without")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=6, help="rounds of turns that count")
    parser.add_argument("--seconds", type=float, default=1.5, help="of a turn, about")
    parser.add_argument("--compiled", action="store_true", help="on a CPU: compiled peers too")
    parser.add_argument("--only", nargs="+", help="contestants whose names contain one of these")
    add_weights(parser)
    parser.add_argument("--out", type=Path, default=FOLDER / "results")
    return parser


def main() -> None:
    parser = flags()
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not has_cuda():
        raise SystemExit("--device cuda: torch finds no such device here; leave it out for the CPU")
    results = header("benchmarks.train", parser, arguments)
    results["versions"] = installed_versions(("torch", "transformers", "litgpt", "x-transformers"))
    if arguments.nanogpt is not None:
        results["versions"]["nanoGPT"] = commit(arguments.nanogpt)
    results["shapes"] = {}
    with kept_weights(arguments) as folder:
        for shape in shapes(arguments):
            results["shapes"][shape.name] = measure(shape, folder / shape.name, arguments)
    write(results, arguments.out, f"train-{arguments.device}")
    print(tables(results))


def shapes(arguments: argparse.Namespace) -> list[Shape]:
    """Those that were named, each with the numbers that were given."""
    default = ["gpt2-1024"] if arguments.device == "cuda" else ["char", "mid"]
    return [as_asked(name, arguments) for name in arguments.shape or default]


def contestants(shape: Shape, folder: Path, arguments: argparse.Namespace) -> list[Contestant]:
    """All contestants, peers first."""
    device = arguments.device
    setup = {"shape": as_json(shape), "folder": str(folder), "device": device}
    cuda = device == "cuda"
    entries: list[Contestant] = []

    def enter(
        name: str,
        make: str,
        precision: str,
        *,
        compiled: bool = cuda,
        allocator_settled: bool = False,
        **settings: Any,
    ) -> None:
        labels = [
            name,
            precision,
            *["compiled"] * compiled,
            *["our allocator settings"] * allocator_settled,
        ]
        contestant_setup = setup | {"precision": precision, "compiled": compiled} | settings
        entries.append(
            Contestant(", ".join(labels), f"{PEERS}:{make}", contestant_setup, allocator_settled)
        )

    nanogpt = {} if arguments.nanogpt is None else {"checkout": str(arguments.nanogpt.resolve())}
    if nanogpt:
        enter("nanoGPT", "nanogpt", "bfloat16" if cuda else "float32", **nanogpt)
    if not cuda:
        enter("Hugging Face", "huggingface", "float32")
    enter("Hugging Face", "huggingface", "bfloat16")
    if not cuda:
        enter("Hugging Face", "huggingface", "bfloat16", allocator_settled=True)
        for name, make in (("litgpt", "litgpt"), ("x-transformers", "x_transformers")):
            enter(name, make, "float32")
            enter(name, make, "bfloat16")
        if arguments.compiled:
            if nanogpt:
                enter("nanoGPT", "nanogpt", "float32", compiled=True, **nanogpt)
            enter("Hugging Face", "huggingface", "bfloat16", compiled=True)
    for name, watching in (("no vital signs", None), ("vital signs", {})):
        contestant_setup = setup | {"compiled": cuda, "watching": watching}
        entries.append(
            Contestant(
                f"pellucid, {name}",
                f"{PELLUCID}:pellucid",
                contestant_setup,
                allocator_settled=True,
            )
        )
    if cuda:
        contestant_setup = setup | {"compiled": True, "compiled_loss": True, "watching": {}}
        name = "pellucid, vital signs, compiled loss"
        entries.append(
            Contestant(name, f"{PELLUCID}:pellucid", contestant_setup, allocator_settled=True)
        )
    wanted_parts = arguments.only
    return [c for c in entries if not wanted_parts or any(part in c.name for part in wanted_parts)]


def measure(shape: Shape, folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """All turns of one shape, after parity."""
    print_progress(f"{shape.name}: {shape.describe()}")
    entries = [limits_contestant(arguments.device), *contestants(shape, folder, arguments)]
    if arguments.device == "cpu":
        check_memory(shape, len(entries) - 1, available_bytes())
    write_weights(shape, folder, arguments.threads)
    ids = write_ids(shape, arguments.text, folder / "ids.npy")
    on_gpu = arguments.device == "cuda"
    with started(entries, arguments.threads, concurrently=on_gpu) as workers:
        facts = {worker.name: worker.facts for worker in workers[1:]}
        check_parity(facts)
        check_sizes(facts, shape)
        print_progress("parity holds; one turn to warm up")
        warm = (
            work_together(workers, 2)
            if on_gpu
            else {worker.name: worker.work(2) for worker in workers}
        )
        second_walls = [worker.work(1).wall for worker in workers[1:]]
        turns = in_turns(workers, arguments.turns, steps_for(second_walls, arguments.seconds))
        held_bytes = {worker.name: worker.held_bytes for worker in workers}
    limits = best_of(turns.pop("limits"))
    return {
        "shape": as_json(shape),
        "said": shape.describe(),
        "ids": ids,
        "tokens": shape.tokens,
        "flops": shape.flops,
        "ln_vocab": math.log(shape.vocab),
        "limits": limits,
        "settled": [c.name for c in entries if c.allocator_settled],
        "facts": facts,
        "first_turn_seconds": {name: turn.wall for name, turn in warm.items()},
        "held_bytes": held_bytes,
        "summary": summary(turns, shape, limits),
        "turns": {name: [vars(turn) for turn in turn_list] for name, turn_list in turns.items()},
        "ended": time.strftime("%H:%M:%S"),
    }


def check_sizes(facts: dict[str, dict[str, Any]], shape: Shape) -> None:
    """Whether those with other weights multiply as many.

    Raises:
        SystemExit: they do not; says who.
    """
    for name, fact in facts.items():
        if not fact["same_weights"] and fact["products"] != shape.products:
            raise SystemExit(
                f"{name} multiplies a token with {fact['products']:,} weights where the shape has "
                f"{shape.products:,}: it is another model, so its time is not compared"
            )


def check_memory(shape: Shape, n_contestants: int, available: int) -> None:
    """Whether all contestants fit into memory at once: weights, gradients and two moments each.

    Raises:
        SystemExit: they do not.
    """
    needed_bytes = n_contestants * 16 * parameter_count(shape.model())
    if needed_bytes > available:
        raise SystemExit(
            f"{n_contestants} contestants of {shape.name} hold at least {needed_bytes / 1e9:.0f} "
            "GB at once, "
            f"and {available / 1e9:.0f} GB are free: name fewer with --only, or a smaller shape"
        )


def add_weights(parser: argparse.ArgumentParser) -> None:
    """The flag of `kept_weights`."""
    parser.add_argument(
        "--weights", type=Path, help="a folder that keeps the weights for the next benchmark"
    )


@contextmanager
def kept_weights(arguments: argparse.Namespace) -> Generator[Path]:
    """The folder for shared weights: the one that was named, or one for this time."""
    if arguments.weights is not None:
        yield arguments.weights
    else:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)


def write_weights(shape: Shape, folder: Path, threads: int) -> None:
    """Write the weights that nanoGPT, Hugging Face and pellucid are given, unless they are there.

    Raises:
        SystemExit: those that are there have another shape.
    """
    folder.mkdir(parents=True, exist_ok=True)
    numbers, shape_text = folder / "shape.json", json.dumps(as_json(replace(shape, batch=1)))
    if numbers.is_file():
        if numbers.read_text(encoding="utf-8") != shape_text:
            raise SystemExit(f"--weights: the weights of {shape.name} there have another shape")
        return
    setup = {"shape": as_json(shape), "folder": str(folder)}
    with started([Contestant("weights", "benchmarks.train_weights:weights", setup)], threads):
        pass  # they are written where it was made
    numbers.write_text(shape_text, encoding="utf-8")


def check_parity(facts: dict[str, dict[str, Any]]) -> None:
    """Whether those with the same weights have the same loss.

    Raises:
        SystemExit: they have not; says whose and how far apart.
    """
    same_weights = {name: fact for name, fact in facts.items() if fact["same_weights"]}
    if not same_weights:
        return
    reference, first = next(iter(same_weights.items()))
    for name, fact in same_weights.items():
        for key, bound in (
            ("float32_loss", FLOAT32_TOLERANCE),
            (
                "first_loss",
                FLOAT32_TOLERANCE if fact["precision"] == "float32" else BFLOAT16_TOLERANCE,
            ),
        ):
            gap = abs(fact[key] - first["float32_loss"])
            if not gap <= bound:
                raise SystemExit(
                    f"no parity: from the same weights, {name} has a {key} of {fact[key]:.6f} and "
                    f"{reference} a float32_loss of {first['float32_loss']:.6f}, {gap:.2g} apart "
                    f"where {bound:g} is allowed: what they compute is not the same, so their "
                    "times are not compared"
                )


if __name__ == "__main__":
    main()
