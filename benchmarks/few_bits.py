"""What fewer bits cost and bring: memory, time to the first token, tokens a second, and loss.

    python -m benchmarks.few_bits runs/my-run --text held-out.txt
    python -m benchmarks.few_bits runs/my-run --text held-out.txt --calibrate book.txt
    python -m benchmarks.few_bits --random gpt2     # 124M random weights, written to disk first
    python -m benchmarks.few_bits --random gpt2 --kernels    # 4 bits by each set of instructions

Comes in: a run or a published model; a text that it has not seen. Goes out: a table on standard
output, a row for each type of matrix, and with --json the readings. Memory is VmHWM, the largest
resident set, of a fresh process that calls `pellucid generate`. It includes Python, torch, the
tokenizer and mapped files. At its end, the benchmark also reads the memory that no file backs
(RssAnon), and the share of memory that processes have in common (Pss). The first start packs the
matrices, the second one maps them. Times are of other fresh processes, the types in turns; the loss
is measured once, in the first turn.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from benchmarks.workers import print_progress

if TYPE_CHECKING:
    from pellucid.model import Weights

TYPES = ("float32", "bfloat16", "int8", "int4")
#: 4 bits with --calibrate.
CALIBRATED = "int4 calibrated"


def flags() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", nargs="?", help="a run, or a published model")
    parser.add_argument("--random", metavar="PRESET", help="a preset's shape, with random weights")
    parser.add_argument("--text", help="a text that the model has not seen, for the loss")
    parser.add_argument("--calibrate", help="also 4 bits that are rounded by this text")
    parser.add_argument("--prompt", type=int, default=512, help="tokens of the prompt that is read")
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--kernels", action="store_true", help="time the ways to multiply 4 bits")
    parser.add_argument("--json", action="store_true", help="the readings in place of the table")
    parser.add_argument("--child", nargs=2, metavar=("WHAT", "TYPE"), help=argparse.SUPPRESS)
    return parser


def main() -> None:
    parser = flags()
    arguments = parser.parse_args()
    if (arguments.run is None) == (arguments.random is None):
        parser.error("name either a run or --random with a preset")
    if arguments.child:
        measurement, kind = arguments.child
        print(
            json.dumps(peak(arguments, kind) if measurement == "peak" else times(arguments, kind))
        )
        return
    with tempfile.TemporaryDirectory() as folder:
        if arguments.run is None:
            arguments.run = folder
            write_random(arguments.random, Path(folder))
        if arguments.kernels:
            print(json.dumps(kernel_times(arguments), indent=1))
            return
        results = measure(arguments)
    print(json.dumps(results, indent=1) if arguments.json else table(results))


def write_random(preset: str, folder: Path) -> None:
    """A model of a preset's shape with weights of a random draw, which reads bytes."""
    from dataclasses import replace

    from pellucid.checkpoints.huggingface import write_published
    from pellucid.model import assemble
    from pellucid.presets import find
    from pellucid.tokenizers import train_bytes

    shape = find(preset).model
    config = replace(shape, vocab_size=shape.vocab_size or 50_257)
    words = train_bytes()
    ends = {"bos_token_id": words.begin_id, "eos_token_id": words.end_id}
    write_published(folder, config, assemble(config, seed=0).state_dict(), ends)
    words.save(folder / "tokenizer.json")


def measure(arguments: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """All readings of each type."""
    kinds = (*TYPES, CALIBRATED) if arguments.calibrate else TYPES
    readings: dict[str, dict[str, Any]] = {kind: {"turns": []} for kind in kinds}
    for kind in kinds:
        readings[kind]["starts"] = [child(arguments, "peak", kind) for _ in range(2)]
    for turn in range(arguments.turns):
        for kind in kinds if turn % 2 == 0 else kinds[::-1]:
            print_progress(f"turn {turn + 1} of {arguments.turns}: {kind}")
            readings[kind]["turns"].append(child(arguments, "times", kind))
            if turn == 0 and arguments.text:
                readings[kind] |= child(arguments, "loss", kind)
    return readings


def child(arguments: argparse.Namespace, measurement: str, kind: str) -> dict[str, Any]:
    """The reading of a fresh process."""
    if measurement == "loss":
        words = [sys.executable, "-m", "pellucid", "evaluate", arguments.run, arguments.text]
        words += [*weight_flags(arguments, kind), "--json"]
    else:
        words = [
            sys.executable,
            "-m",
            "benchmarks.few_bits",
            arguments.run,
            "--child",
            measurement,
            kind,
        ]
        words += ["--prompt", str(arguments.prompt), "--new-tokens", str(arguments.new_tokens)]
        words += ["--threads", str(arguments.threads)]
        if arguments.calibrate:
            words += ["--calibrate", arguments.calibrate]
    answer = subprocess.run(words, check=True, capture_output=True, text=True)
    return json.loads(answer.stdout.splitlines()[-1] if measurement != "loss" else answer.stdout)


def weight_flags(arguments: argparse.Namespace, kind: str) -> list[str]:
    """The flags of a command for a type."""
    if kind == CALIBRATED:
        return ["--weights", "int4", "--calibrate", arguments.calibrate]
    return ["--weights", kind]


def peak(arguments: argparse.Namespace, kind: str) -> dict[str, Any]:
    """The resident set of `pellucid generate` in MB: its peak, and its kinds at the end."""
    import contextlib
    import io

    from pellucid.cli import main as pellucid

    words = ["generate", arguments.run, "Once upon a time", "--greedy"]
    words += weight_flags(arguments, kind)
    with contextlib.redirect_stdout(io.StringIO()):
        code = pellucid([*words, "--max-new-tokens", str(arguments.new_tokens)])
    if code:
        raise SystemExit(f"pellucid generate ended with {code}")
    status, rollup = (f"/proc/self/{name}" for name in ("status", "smaps_rollup"))
    kilobytes = {
        line.split()[0]: int(line.split()[1])
        for file in (status, rollup)
        for line in Path(file).read_text(encoding="utf-8").splitlines()
        if line.endswith(" kB")
    }
    names = {"peak_mb": "VmHWM:", "anonymous_mb": "RssAnon:", "shared_out_mb": "Pss:"}
    return {name: kilobytes[line] * 1024 / 1e6 for name, line in names.items()}


def times(arguments: argparse.Namespace, kind: str) -> dict[str, Any]:
    """Seconds to the first token of a prompt, by two clocks, and tokens a second."""
    import torch

    from pellucid import runs
    from pellucid.free_memory import keep_freed_memory
    from pellucid.generation import Sampling, continue_ids
    from pellucid.typed import to_list

    torch.set_num_threads(arguments.threads)
    keep_freed_memory(huge_pages=False)  # as `pellucid generate` does
    calibrate = [arguments.calibrate] if kind == CALIBRATED else None
    weights = cast("Weights", "int4" if calibrate else kind)
    model = runs.load(arguments.run, weights=weights, packed=True, calibrate=calibrate).model
    generator = torch.Generator().manual_seed(0)
    n_ids = model.token_embedding.num_embeddings
    prompt = to_list(torch.randint(n_ids, (arguments.prompt,), generator=generator))
    first: list[tuple[float, float]] = []
    tokens: Iterator[list[int]] = iter(())
    for _ in range(3):
        began, started = time.process_time(), time.perf_counter()
        tokens = continue_ids(model, [prompt], Sampling(temperature=0.0))
        next(tokens)
        first.append((time.perf_counter() - started, time.process_time() - began))
    started = time.perf_counter()
    token_rows = list(islice(tokens, arguments.new_tokens))
    seconds = time.perf_counter() - started
    wall, processor = (min(clock) for clock in zip(*first[1:], strict=True))
    return {
        "first_token_seconds": wall,
        "first_token_processor_seconds": processor,
        "tokens_per_second": len(token_rows) / seconds,
    }


def kernel_times(arguments: argparse.Namespace) -> dict[str, Any]:
    """Tokens a second of 4 bits, written one after another, by each kernel in turns."""
    import torch

    from pellucid import runs
    from pellucid.free_memory import keep_freed_memory
    from pellucid.generation.decoding import decoder
    from pellucid.native import kernels

    torch.set_num_threads(arguments.threads)
    keep_freed_memory(huge_pages=False)
    model = runs.load(arguments.run, weights="int4", packed=True).model
    compiled = decoder(model)
    if compiled is None:
        raise SystemExit("no C compiler: the model itself decodes")
    speeds: dict[str, list[float]] = {kernel.name: [] for kernel in kernels()}
    for turn in range(arguments.turns + 1):
        for kernel in kernels() if turn % 2 else kernels()[::-1]:
            compiled.kernel, caches = kernel, model.new_caches()
            compiled.make_rooms(caches, 1)
            started = time.perf_counter()
            for _ in range(arguments.new_tokens):
                compiled.logits(torch.zeros(1, dtype=torch.long), caches)
            if turn:  # the first one warms up
                seconds = time.perf_counter() - started
                speeds[kernel.name].append(arguments.new_tokens / seconds)
    return {name: spread(turns) for name, turns in speeds.items()}


def table(readings: dict[str, dict[str, Any]]) -> str:
    """The medians as Markdown, with the range over turns."""
    lines = [
        "| weights | MB at the peak, first start | later starts | of these in no file | Pss | "
        "ms to the first token | of the processor | tokens/s | bits per byte |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for kind, row in readings.items():
        columns = [
            spread([turn[name] * scale for turn in row["turns"]])
            for name, scale in (
                ("first_token_seconds", 1e3),
                ("first_token_processor_seconds", 1e3),
                ("tokens_per_second", 1),
            )
        ]
        bits = row.get("bits_per_byte")
        loss = "not measured" if bits is None else f"{bits:.4f}"
        first, second = row["starts"]
        memory = [
            first["peak_mb"],
            *(second[n] for n in ("peak_mb", "anonymous_mb", "shared_out_mb")),
        ]
        columns = [*(f"{megabytes:,.0f}" for megabytes in memory), *columns]
        lines.append(f"| {kind} | {' | '.join(columns)} | {loss} |")
    return "\n".join(lines)


def spread(readings: list[float]) -> str:
    """The median and the range."""
    middle = statistics.median(readings)
    return f"{middle:,.0f} ({min(readings):,.0f} to {max(readings):,.0f})"


if __name__ == "__main__":
    main()
