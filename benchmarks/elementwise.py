"""What does a number at a time cost, by torch and by pellucid: dropout and activations?

    python -m benchmarks.elementwise

Forward and backward in bfloat16 on two threads of a CPU, each right after a product of matrices, as
in a model: its threads are then awake, and what it made lies in the caches of several cores.
GPT-2's GELU in C runs on one thread, on a pool of Python's threads, and on the threads that torch
keeps. The table compares it with torch's, and with torch's GELU with the error function, the
model's own. The ways alternate in time; medians by the clock. Settings of the allocator are the
command line's.

Nothing comes in. Goes out: a table, and a dated JSON file under benchmarks/results/.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.machine import header, write
from benchmarks.train_table import machine_line
from pellucid.free_memory import keep_freed_memory
from pellucid.model.dropout import dropout
from pellucid.model.fused_activations import in_one_pass
from pellucid.native import ActivationName, Threads
from pellucid.threads import threads

#: Tokens and width of a model: of the character shape, of `nano`, `small` and GPT-2's 124M.
SHAPES = [(768, 128), (2048, 128), (2048, 320), (2048, 768)]
THREADS = 2
KINDS = ("dropout", "GELU", "GPT-2's GELU", "squared ReLU")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=40)
    parser.set_defaults(threads=THREADS)
    arguments = parser.parse_args()
    keep_freed_memory()  # before torch asks for any memory
    torch.set_num_threads(arguments.threads)
    results = header("benchmarks.elementwise", parser, arguments)
    results["rows"] = [measured(*shape, arguments.repeats) for shape in SHAPES]
    write(results, Path(__file__).parent / "results", "elementwise")
    print(table(results))


def timed_with_threads(
    number: Threads, name: ActivationName = "gelu_tanh"
) -> Callable[[Tensor], float]:
    """An activation in C and its way back by these threads."""

    def in_c(x: Tensor) -> Tensor:
        result = in_one_pass(x, name)
        if result is None:
            raise SystemExit("no C compiler is here: there is nothing to compare")
        return result

    def seconds_of(x: Tensor) -> float:
        with mock.patch("pellucid.model.fused_activations.threads", return_value=number):
            return timed_both_ways(in_c)(x)

    return seconds_of


def timed_both_ways(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], float]:
    """Seconds of `function` and its way back."""

    def seconds_of(x: Tensor) -> float:
        output_gradient = torch.ones_like(x)
        started = time.perf_counter()
        function(x).backward(output_gradient)
        return time.perf_counter() - started

    return seconds_of


def measured(tokens: int, width: int, repeats: int) -> dict[str, Any]:
    """Median milliseconds of each way: dropout of a residual, activations four times as wide."""
    draws = torch.Generator().manual_seed(0)
    state = torch.randn(tokens, width, generator=draws).bfloat16()
    weight = torch.randn(width, 4 * width, generator=draws).bfloat16()
    torch_threads = threads()

    def timed(
        functions: Mapping[str, Callable[[Tensor], float]], product: Callable[[], Tensor]
    ) -> dict[str, float]:
        seconds: dict[str, list[float]] = {name: [] for name in functions}
        for _ in range(repeats):
            for name, function in functions.items():
                seconds[name].append(function(product().requires_grad_()))
        return {name: 1e3 * statistics.median(times) for name, times in seconds.items()}

    return {
        "tokens": tokens,
        "width": width,
        "dropout": timed(
            {
                "torch": timed_both_ways(lambda x: F.dropout(x, 0.1)),
                "pellucid": timed_both_ways(lambda x: dropout(x, 0.1)),
            },
            lambda: state @ weight[:, :width],
        ),
        "GELU": timed({"torch": timed_both_ways(F.gelu)}, lambda: state @ weight),
        "GPT-2's GELU": timed(
            {
                "torch": timed_both_ways(lambda x: F.gelu(x, approximate="tanh")),
                "C, one thread": timed_with_threads(Threads(1)),
                "C, a pool of two": timed_with_threads(Threads(THREADS)),
                "C, torch's two": timed_with_threads(torch_threads),
            },
            lambda: state @ weight,
        ),
        "squared ReLU": timed(
            {
                "torch": timed_both_ways(lambda x: F.relu(x).square()),
                "C, torch's two": timed_with_threads(torch_threads, "relu_squared"),
            },
            lambda: state @ weight,
        ),
    }


def table(results: Mapping[str, Any]) -> str:
    """The results as Markdown."""
    first = results["rows"][0]
    names = [f"{kind}: {name}" for kind in KINDS for name in first[kind]]
    lines = [
        f"{machine_line(results)} Milliseconds.\n",
        f"| tokens x width | {' | '.join(names)} |",
        "|" + "---|" * (1 + len(names)),
    ]
    for row in results["rows"]:
        cells = [f"{value:.2f}" for kind in KINDS for value in row[kind].values()]
        lines.append(f"| {row['tokens']:,} x {row['width']} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
