"""Writing by pellucid, by compiled code or by torch; and the machine's limit of reading.

Comes in: a folder with shared weights, what they are rounded to. Goes out: contestants for
`benchmarks.worker`. It does not know the others.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from benchmarks import machine
from pellucid.generation import Sampling, continue_ids
from pellucid.generation.cuda_graphs import graphed
from pellucid.generation.decoding import decoder
from pellucid.model import Weights
from pellucid.native import huge_buffer, library
from pellucid.saved_runs.published import load_published

#: Of memory that is read: more than any cache holds.
READ_BYTES = 2**28
#: Tokens that all write once, to see whether they are alike.
COMPARED = 24


class Writes:
    """So many tokens after the prompt when called, greedily; `facts` describes it.

    A turn also gives the seconds of the tokens after the first: the time of one token more than was
    asked for, minus the time of one token. So the time for the prompt and the fixed cost of a call
    are left out.
    """

    def __init__(self, write: Callable[[list[int], int], list[int]], prompt: list[int]) -> None:
        self.write, self.prompt = write, prompt
        self.facts: dict[str, Any] = {"ids": write(prompt, COMPARED)}

    def __call__(self, steps: int) -> dict[str, Any]:
        first, longer = timed(self.write, self.prompt, 1), timed(self.write, self.prompt, steps + 1)
        return {"wall": longer[0] - first[0], "processor": longer[1] - first[1], "prompt": first[0]}


def timed(write: Callable[[list[int], int], list[int]], prompt: list[int], n: int) -> list[float]:
    """Seconds by the clock and of the processor; all of them were written."""
    began, started = time.process_time(), time.perf_counter()
    ids = write(prompt, n)
    took = [time.perf_counter() - started, time.process_time() - began]
    assert len(ids) == n, f"{len(ids)} tokens were written, and not {n}"
    return took


def pellucid(
    *, folder: str, prompt: list[int], weights: Weights, native: bool, device: str
) -> Writes:
    """`continue_ids` of the model that `pellucid generate` opens; on a GPU the whole model rounded.

    On a CPU its matrices are packed.
    """
    if not native:
        os.environ["PELLUCID_NATIVE"] = "off"
    place, on_cpu = torch.device(device), device == "cpu"
    kind = weights if on_cpu else "float32"
    model, _, _ = load_published(Path(folder), place, kind, packed=on_cpu)
    if not on_cpu:
        model.to(getattr(torch, weights))
    find = decoder if device == "cpu" else graphed
    if native and find(model) is None:
        raise SystemExit("there is no compiled code: is there a C compiler?")

    def write(prompt: list[int], n: int) -> list[int]:
        token_rows = continue_ids(model, [prompt], Sampling(temperature=0))
        return [token for (token,) in islice(token_rows, n)]

    return Writes(write, prompt)


def reading(*, device: str) -> Callable[[int], dict[str, Any]]:
    """Bytes per second at which memory is read; a step is one pass."""
    if device != "cpu":
        return partial(reading_of_gpu, torch.ones(READ_BYTES // 4, device=device))
    loaded = library(Path(__file__).with_name("sweep.c"))
    if loaded is None:
        raise SystemExit("the limit is measured by C: is there a C compiler?")
    loaded.sweep.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32]
    loaded.sweep.restype = ctypes.c_uint64
    words = torch.frombuffer(huge_buffer(READ_BYTES), dtype=torch.int64).fill_(1)

    def sweep(steps: int) -> dict[str, Any]:
        threads, best, by_processor = torch.get_num_threads(), 0.0, 0.0
        for _ in range(steps):
            began, started = time.process_time(), time.perf_counter()
            words_read = loaded.sweep(words.data_ptr(), len(words), threads)
            best = max(best, READ_BYTES / (time.perf_counter() - started))
            by_processor = max(by_processor, READ_BYTES / (time.process_time() - began) * threads)
            assert words_read == len(words) // threads * threads
        return {"best": best, "by_processor": by_processor}

    return sweep


def reading_of_gpu(numbers: torch.Tensor, steps: int) -> dict[str, Any]:
    """The same of a GPU's memory, by torch's own sum."""
    clocks = [machine.timed(numbers.sum, "cuda") for _ in range(steps)]
    best, by_processor = (READ_BYTES / min(clock) for clock in zip(*clocks, strict=True))
    return {"best": best, "by_processor": by_processor}
