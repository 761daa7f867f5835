"""Is attention faster in torch's fused kernel, or as products of matrices?

    python -m benchmarks.attention_kernels
    python -m benchmarks.attention_kernels --settled

Forward and backward of causal attention alone, as the model computes it, on a CPU with one thread,
in bfloat16 and in float32, over shapes from a character model's to 1,024 keys. The kernels
alternate in time; medians of processor time, with the quartiles. `pellucid.training.kernels`
chooses by these results.

Nothing comes in. Goes out: a table, and a dated JSON file under benchmarks/results/.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks.machine import header, write
from benchmarks.norms import timed
from benchmarks.train_table import machine_line
from pellucid.free_memory import keep_freed_memory
from pellucid.model import NoPositions, look
from pellucid.model.cache import KeysAndValues
from pellucid.model.scores import Scoring, gather


class Shape(NamedTuple):
    """Of queries, keys and values."""

    rows: int
    heads: int
    length: int
    d_head: int


SHAPES = [
    Shape(12, 4, 64, 32),
    Shape(8, 2, 256, 64),
    Shape(8, 6, 256, 64),
    Shape(2, 12, 256, 64),
    Shape(4, 6, 512, 64),
    Shape(2, 6, 1024, 64),
    Shape(2, 6, 1024, 128),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument(
        "--settled", action="store_true", help="with the command line's settings of the allocator"
    )
    parser.set_defaults(threads=1)
    arguments = parser.parse_args()
    if arguments.settled:
        keep_freed_memory()  # before torch asks for any memory
    torch.set_num_threads(arguments.threads)
    results = header("benchmarks.attention_kernels", parser, arguments)
    results["rows"] = [
        measured(shape, dtype, arguments.repeats)
        for dtype in (torch.bfloat16, torch.float32)
        for shape in SHAPES
    ]
    name = "attention-kernels-settled" if arguments.settled else "attention-kernels"
    write(results, Path(__file__).parent / "results", name)
    print(table(results))


def measured(shape: Shape, dtype: torch.dtype, repeats: int) -> dict[str, Any]:
    """Quartiles of the milliseconds of both ways with each kernel."""
    generator = torch.Generator().manual_seed(0)

    def draw_heads() -> Tensor:
        # heads side by side in a row, as projections leave them
        rows, heads, length, d_head = shape
        wide = torch.randn(rows, length, heads, d_head, generator=generator)
        return wide.to(dtype).transpose(1, 2).requires_grad_()

    q, k, v, output_gradient = draw_heads(), draw_heads(), draw_heads(), draw_heads().detach()
    view = look(shape.length, q.device, causal=True)

    def forward_and_backward(scoring: Scoring) -> object:
        mixed = gather(q, KeysAndValues(k, v), scoring, NoPositions(), view)
        return torch.autograd.grad(mixed, (q, k, v), output_gradient)

    calls: dict[str, Callable[[], object]] = {
        name: partial(forward_and_backward, Scoring(shape.d_head**-0.5, fused=name == "fused"))
        for name in ("fused", "products")
    }
    return {
        "shape": shape._asdict(),
        "dtype": str(dtype).removeprefix("torch."),
        "milliseconds": timed(calls, repeats),
    }


def table(results: dict[str, Any]) -> str:
    """The results as Markdown."""
    lines = [
        f"{machine_line(results)}\n",
        "| dtype | rows x heads x length x d_head | fused, ms | products, ms | ratio |",
        "|---|---|---|---|---|",
    ]
    for row in results["rows"]:
        fused, products = (row["milliseconds"][name][1] for name in ("fused", "products"))
        shape = " x ".join(str(size) for size in row["shape"].values())
        lines.append(
            f"| {row['dtype']} | {shape} | {fused:.2f} | {products:.2f} | {fused / products:.2f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
