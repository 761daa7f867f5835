"""Contestants for the tests of benchmarks: they count, they fail, they print.

Comes in: what a test gives. Goes out: functions as `benchmarks.worker` wants them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any


class Counting:
    """Counts its steps, and prints where a careless contestant would."""

    def __init__(self, start: int) -> None:
        self.count = start
        threads, other = os.environ.get("OMP_NUM_THREADS"), os.environ.get("MALLOC_ARENA_MAX")
        self.facts = {"threads": threads, "arenas": other, "torch": "torch" in sys.modules}

    def __call__(self, steps: int) -> dict[str, Any]:
        print("this is no answer")
        self.count += steps
        return {"count": self.count}


def failing() -> Callable[[int], dict[str, Any]]:
    """Fails in its first turn."""

    def work(steps: int) -> dict[str, Any]:
        raise RuntimeError(f"no {steps} steps today")

    return work


def dying() -> Callable[[int], dict[str, Any]]:
    """Ends its process in its first turn, without a word."""
    return lambda steps: os._exit(7)
