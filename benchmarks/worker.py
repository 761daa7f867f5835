"""One contestant in a process of its own: it works on request, and says how long it took.

    python -m benchmarks.worker '{"make": "benchmarks.machine:limits", "setup": {}}'

Allocator, threads and compiler settings belong to a whole process, so contestants that differ in
them cannot share one. `make` names a function; called with `setup` it returns a function of a
number of steps, which does that many and returns what it found (a loss, say). It sends its
attribute `facts` first, if it has one.

Comes in: on the command line what to make; on standard input one line of JSON per turn. Goes out:
on standard output one line of JSON per turn: seconds by the clock and of the processor, the peak
memory of its turns so far, and the contestant's numbers. What the contestant prints goes to
standard error. It does not know who else takes part.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any, TextIO


def main() -> None:
    order = json.loads(sys.argv[1])
    answers = own_output()
    try:
        if order.get("settled"):
            settle()
        started = time.perf_counter()
        contestant = build_contestant(order["make"], order["setup"])
        answer(
            answers,
            facts=getattr(contestant, "facts", {}),
            start_seconds=time.perf_counter() - started,
            held_bytes=memory("VmRSS"),
        )
        forget_peak()
        for line in sys.stdin:
            answer(answers, **turn(contestant, json.loads(line)["steps"]))
    except Exception:
        answer(answers, error=traceback.format_exc())
        raise SystemExit(1) from None


def own_output() -> TextIO:
    """Standard output for answers alone; everything else that is printed goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def settle() -> None:
    """What pellucid's command line does to its process, before torch is loaded."""
    assert "torch" not in sys.modules
    from pellucid.free_memory import keep_freed_memory

    keep_freed_memory()


def build_contestant(name: str, setup: dict[str, Any]) -> Callable[[int], dict[str, Any]]:
    """What the function `module:name` returns."""
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)(**setup)


def turn(contestant: Callable[[int], dict[str, Any]], steps: int) -> dict[str, Any]:
    """Let it work, and measure: the device is waited for at both ends."""
    wait()
    began, started = time.process_time(), time.perf_counter()
    contestant_numbers = contestant(steps)
    wait()
    wall, processor = time.perf_counter() - started, time.process_time() - began
    return {
        "steps": steps,
        "wall": wall,
        "processor": processor,
        "peak_bytes": peak(),
        "found": contestant_numbers,
    }


def cuda() -> Any:
    """torch.cuda where it is in use, else None."""
    torch = sys.modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_initialized() else None


def wait() -> None:
    """Wait until the device has done its work."""
    device = cuda()
    if device is not None:
        device.synchronize()


def peak() -> int:
    """The most bytes there were: of the GPU where one is in use, else resident in this process."""
    device = cuda()
    return memory("VmHWM") if device is None else device.max_memory_allocated()


def forget_peak() -> None:
    """From here on, the peak counts the turns only, not building and checking."""
    device = cuda()
    if device is None:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
    else:
        device.reset_peak_memory_stats()


def memory(name: str) -> int:
    """A size of this process as Linux tells it, in bytes: VmRSS is held now, VmHWM the most."""
    with open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    raise ValueError(f"/proc/self/status has no {name}")


def answer(file: TextIO, **fields: Any) -> None:
    print(json.dumps(fields), file=file, flush=True)


if __name__ == "__main__":
    main()
