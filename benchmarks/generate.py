"""How fast does it write? pellucid and its peers, greedily, one text at a time, side by side.

    python -m benchmarks.generate --nanogpt nanoGPT

One shape, one prompt; each contestant in a process of its own, at work one at a time, in turns
whose order alternates. Only tokens after the first count: the time for the prompt and the fixed
cost of a call are left out. Peers: Hugging Face's `generate` in float32 and bf16, with a cache that
grows and one of fixed size; nanoGPT, which has no cache; and litgpt and x-transformers. llama.cpp
takes part if it is installed or a checkout is named. It runs by its C API in a loop of C
(llama_loop.c), in f32, bf16 and q8_0.

Parity comes first: in float32 nanoGPT, Hugging Face and pellucid with the same weights write the
same tokens, and so does pellucid with and without compiled code at each precision, or nothing is
measured. For the others the table says how many of their first tokens equal float32's: they round
activations too, or have weights of their own draw.

Comes in: flags. Goes out: a table on standard output, and a dated JSON file under
benchmarks/results/. The bandwidth of memory is measured between the turns, by reading and adding;
the share counts the bytes of matrices that a token has to read.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.generate_pellucid import COMPARED
from benchmarks.llama_cpp import built, place_of
from benchmarks.machine import commit, header, write
from benchmarks.shapes import SHAPES, Shape, add_numbers, as_asked, as_json, zipf
from benchmarks.train import add_weights, kept_weights, write_weights
from benchmarks.train_table import machine_line
from benchmarks.workers import Contestant, Turn, in_turns, print_progress, started
from pellucid.machine import installed_versions

FOLDER = Path(__file__).parent
PEERS, PELLUCID = "benchmarks.generate_peers", "benchmarks.generate_pellucid"
#: llama.cpp's name in the results; older ones have it as "llama.cpp", called from Python.
FROM_C = "llama.cpp from C"
#: Bytes of a weight, the scales of blocks among them.
BYTES = {"float32": 4.0, "bfloat16": 2.0, "int8": 1 + 4 / 256, "q8_0": 34 / 32, "q4_0": 18 / 32}
BYTES |= {"int4": BYTES["q4_0"]}
#: Our type of as many bits as llama.cpp's.
SAME_BITS = {"q8_0": "int8", "q4_0": "int4"}


def flags() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", choices=list(SHAPES), default="gpt2")
    add_numbers(parser, "batch")
    parser.add_argument("--prompt", type=int, default=32, help="its tokens")
    parser.add_argument("--new-tokens", type=int, default=48, help="of a turn")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=6, help="rounds of turns that count")
    parser.add_argument("--nanogpt", type=Path, help="a checkout of nanoGPT; left out without")
    parser.add_argument(
        "--llama-cpp", type=Path, help="a built checkout of llama.cpp; else llama-cpp-python's"
    )
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--only", nargs="+", help="contestants whose names contain one of these")
    add_weights(parser)
    parser.add_argument("--out", type=Path, default=FOLDER / "results")
    return parser


def main() -> None:
    parser = flags()
    arguments = parser.parse_args()
    results = header("benchmarks.generate", parser, arguments)
    packages = ("torch", "transformers", "litgpt", "x-transformers", "llama-cpp-python", "gguf")
    results["versions"] = installed_versions(packages)
    if arguments.nanogpt is not None:
        results["versions"]["nanoGPT"] = commit(arguments.nanogpt)
    if arguments.llama_cpp is not None:
        results["versions"]["llama.cpp"] = commit(arguments.llama_cpp)
    shape = replace(as_asked(arguments.shape, arguments), batch=1)
    n_tokens = max(COMPARED, arguments.new_tokens + 1)
    shape = replace(shape, length=max(shape.length, arguments.prompt + n_tokens))
    with kept_weights(arguments) as folder:
        results |= measure(shape, str(folder / shape.name), arguments)
    write(results, arguments.out, "generate" if arguments.device == "cpu" else "generate-cuda")
    print(table(results))


def contestants(
    shape: Shape, folder: str, prompt: list[int], arguments: argparse.Namespace
) -> list[tuple[Contestant, str, bool]]:
    """All contestants, each with its precision, and whether it has the shared weights."""
    contestants: list[tuple[Contestant, str, bool]] = []
    on_cpu = arguments.device == "cpu"

    def enter(
        name: str, make: str, precision_name: str, *, shared: bool = True, **settings: Any
    ) -> None:
        setup = {"folder": folder, "prompt": prompt} | settings
        is_pellucid = make.startswith(PELLUCID)
        contestant = Contestant(
            f"{name}, {precision_name}", make, setup, allocator_settled=is_pellucid
        )
        contestants.append((contestant, precision_name, shared))

    for precision in ("float32", "bfloat16"):
        peer = {"shape": as_json(shape), "precision": precision, "device": arguments.device}
        enter("Hugging Face", f"{PEERS}:huggingface", precision, static=False, **peer)
        name = "Hugging Face with a static cache"
        enter(name, f"{PEERS}:huggingface", precision, static=True, **peer)
        if arguments.nanogpt is not None:
            checkout = str(arguments.nanogpt.resolve())
            enter("nanoGPT", f"{PEERS}:nanogpt", precision, checkout=checkout, **peer)
        enter("litgpt", f"{PEERS}:litgpt", precision, shared=False, **peer)
    peer = {"shape": as_json(shape), "precision": "float32", "device": arguments.device}
    enter("x-transformers", f"{PEERS}:x_transformers", "float32", shared=False, **peer)
    if not on_cpu:
        print_progress("llama.cpp is left out, and so are 8 bits: they are compared on a CPU")
    elif isinstance(place := place_of(arguments.llama_cpp), str):
        print_progress(f"llama.cpp is left out: {place}")
    elif importlib.util.find_spec("gguf") is None:
        print_progress("llama.cpp is left out: gguf, which writes its files, is not installed")
    else:
        program = str(built(place, Path(folder)))
        for precision in ("float32", "bfloat16", *SAME_BITS):
            peer = {"shape": as_json(shape), "precision": precision, "program": program}
            enter(FROM_C, f"{PEERS}:llama_cpp", precision, **peer)
    for precision in ("float32", "bfloat16", *(SAME_BITS.values() if on_cpu else [])):
        settings = {"weights": precision, "device": arguments.device}
        for name, native in (("pellucid without compiled code", False), ("pellucid", True)):
            enter(name, f"{PELLUCID}:pellucid", precision, native=native, **settings)
    name_parts = arguments.only
    return [
        entry
        for entry in contestants
        if not name_parts or any(part in entry[0].name for part in name_parts)
    ]


def measure(shape: Shape, folder: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """All turns, after parity."""
    prompt = zipf(shape.vocab, arguments.prompt).tolist()
    write_weights(shape, Path(folder), arguments.threads)
    entries = contestants(shape, folder, prompt, arguments)
    reading = Contestant("reading", f"{PELLUCID}:reading", {"device": arguments.device})
    all_contestants, concurrently = (
        [reading, *(contestant for contestant, _, _ in entries)],
        arguments.device == "cuda",
    )
    with started(all_contestants, arguments.threads, concurrently=concurrently) as workers:
        ids = {worker.name: worker.facts["ids"] for worker in workers[1:]}
        check_parity(ids)
        turns = in_turns(workers, arguments.turns, arguments.new_tokens)
        held_bytes = {worker.name: worker.held_bytes for worker in workers}
    limits = turns.pop("reading")
    bandwidth = {
        clock: statistics.median(turn.found[clock] for turn in limits)
        for clock in ("best", "by_processor")
    }
    precisions = {contestant.name: precision for contestant, precision, _ in entries}
    return {
        "shape": as_json(shape),
        "said": shape.describe(),
        "bytes_per_second": bandwidth,
        "matrices": matrices(shape),
        "same_first_tokens": agreement(ids, {c.name for c, _, shared in entries if shared}),
        "held_bytes": held_bytes,
        "summary": summary(turns, precisions, matrices(shape), bandwidth),
        "turns": {name: [vars(turn) for turn in turn_list] for name, turn_list in turns.items()},
    }


def matrices(shape: Shape) -> int:
    """Weights of matrices that a token is multiplied with."""
    return 12 * shape.layers * shape.width**2 + shape.vocab * shape.width


def check_parity(ids: Mapping[str, Sequence[int]]) -> None:
    """Whether the same weights write the same tokens.

    Raises:
        SystemExit: they do not; says whose.
    """
    exact = ("Hugging Face, float32", "nanoGPT, float32", "pellucid, float32")
    groups = [[name for name in exact if name in ids]]
    for precision in ("float32", "bfloat16", "int8", "int4"):
        pair = (f"pellucid, {precision}", f"pellucid without compiled code, {precision}")
        groups.append([name for name in pair if name in ids])
    for names in groups:
        for name in names[1:]:
            if ids[name] != ids[names[0]]:
                raise SystemExit(
                    f"no parity: {names[0]} writes {ids[names[0]]} and {name} {ids[name]}: what "
                    "they compute is not the same, so their times are not compared"
                )


def agreement(ids: Mapping[str, Sequence[int]], shared: set[str]) -> dict[str, int]:
    """How many of the first tokens equal the tokens of pellucid in float32, of the same weights."""
    reference = ids.get("pellucid, float32")
    if reference is None:
        return {}
    n_equal: dict[str, int] = {}
    for name in sorted(shared):
        equals = [a == b for a, b in zip(ids[name], reference, strict=True)]
        n_equal[name] = [*equals, False].index(False)
    return n_equal


def summary(
    turns: Mapping[str, Sequence[Turn]],
    precisions: Mapping[str, str],
    weights: int,
    bandwidth: Mapping[str, float],
) -> dict[str, dict[str, Any]]:
    """For each contestant its speed, its share of the bandwidth, and the ratios to all others.

    Without those whose time was lost in noise: in a turn, all tokens took no longer than the first.
    """
    turns = {
        name: turn_list
        for name, turn_list in turns.items()
        if all(turn.found[clock] > 0 for turn in turn_list for clock in ("wall", "processor"))
    }

    def seconds(name: str, clock: str) -> list[float]:
        return [turn.found[clock] / turn.steps for turn in turns[name]]

    summaries: dict[str, dict[str, Any]] = {}
    for name in turns:
        size = weights * BYTES[precisions[name]]
        wall, processor = (statistics.median(seconds(name, c)) for c in ("wall", "processor"))
        summaries[name] = {
            "precision": precisions[name],
            "tokens_per_second": 1 / wall,
            "processor_seconds": processor,
            "megabytes_per_token": size / 1e6,
            "share_of_bandwidth": size / wall / bandwidth["best"],
            "share_by_processor": size / processor / bandwidth["by_processor"],
            "prompt_seconds": statistics.median(turn.found["prompt"] for turn in turns[name]),
            "faster_than": {
                other: {
                    clock: statistics.median(
                        other_seconds / own_seconds
                        for other_seconds, own_seconds in zip(
                            seconds(other, clock), seconds(name, clock), strict=True
                        )
                    )
                    for clock in ("wall", "processor")
                }
                for other in turns
                if other != name
            },
        }
    return summaries


def table(results: Mapping[str, Any]) -> str:
    """Results as Markdown, below a line with the command and the machine."""
    rows = results["summary"]
    lines = [
        f"**Writing**: {results['said']}. {machine_line(results)}",
        "",
        f"Memory is read at {results['bytes_per_second']['best'] / 1e9:.1f} GB/s (the median "
        "of what was measured between the turns).",
        "",
        "| | tokens/s | of the bandwidth | processor ms a token | pellucid at the same bits is "
        "faster by (by processor time) | ms until the first token | first tokens of float32 |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        pellucid_row = rows.get(f"pellucid, {SAME_BITS.get(row['precision'], row['precision'])}")
        ratio = ""
        if pellucid_row is not None and name in pellucid_row["faster_than"]:
            ratios = pellucid_row["faster_than"][name]
            ratio = f"{ratios['wall']:.2f} ({ratios['processor']:.2f})"
        n_same = results["same_first_tokens"].get(name, "")
        name = name.replace("llama.cpp,", "llama.cpp through its Python binding,")
        lines.append(
            f"| {name} | {row['tokens_per_second']:.1f} | {row['share_of_bandwidth']:.0%} | "
            f"{row['processor_seconds'] * 1e3:.2f} | {ratio} | "
            f"{row['prompt_seconds'] * 1e3:.1f} | {n_same} |"
        )
    lost = [name for name in results["turns"] if name not in rows]
    if lost:
        lines += ["", f"Lost in noise (more --new-tokens would tell): {'; '.join(lost)}."]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
