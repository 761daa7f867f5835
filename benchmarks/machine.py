"""What a benchmark ran on, and how fast that is at best: matrix products, and reading memory.

A share of a machine's limit means something only if the limit was measured in the same run, so
`limits` is a contestant like the others (see `benchmarks.workers`): it takes turns with them.

Comes in: nothing, or a device. Goes out: names, versions, and the limits. It does not know the
other contestants.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.workers import Contestant, Turn, print_progress

if TYPE_CHECKING:
    import torch

#: m, k, n of products; the best counts. A GPU is not filled by the small ones.
PRODUCTS = {
    "cpu": ((2048, 2048, 2048), (2048, 768, 3072), (2048, 384, 1536)),
    "cuda": ((8192, 8192, 8192), (16384, 4096, 4096), (65536, 768, 3072)),
}
#: Of memory that is read: more than any cache holds.
READ_BYTES = {"cpu": 2**29, "cuda": 2**32}


def machine() -> dict[str, Any]:
    """What it ran on."""
    import torch

    from pellucid.machine import processor_name

    facts: dict[str, Any] = {
        "processor": processor_name(),
        "cores": os.cpu_count(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
    }
    if torch.cuda.is_available():
        facts["gpu"] = torch.cuda.get_device_name()
    return facts


def available_bytes() -> int:
    """Memory that a new process can have, as Linux estimates it."""
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise ValueError("/proc/meminfo has no MemAvailable")


def has_cuda() -> bool:
    """Whether torch can compute on a GPU."""
    import torch

    return torch.cuda.is_available()


def commit(checkout: Path) -> str:
    """The commit of a checkout, and whether there is more in it than that commit."""

    def git(*words: str) -> str:
        process = subprocess.run(
            ["git", "-C", str(checkout), *words], capture_output=True, text=True, check=False
        )
        return process.stdout.strip()

    if git("rev-parse", "--show-prefix"):  # a folder in a checkout of something else
        return "no git checkout"
    name = git("rev-parse", "HEAD")[:12] or "no git checkout"
    return f"{name} with changes" if git("status", "--porcelain", "-uno") else name


def header(
    module: str, parser: argparse.ArgumentParser, arguments: argparse.Namespace
) -> dict[str, Any]:
    """The head of every file of results; `arguments` have the number of `threads`."""
    return {
        "date": datetime.now().strftime("%Y-%m-%d"),
        "command": shlex.join(("python", "-m", module, *flags_of(parser, arguments))),
        "commit": commit(Path(__file__).parent.parent),
        "machine": machine(),
        "threads": arguments.threads,
        "load_before": os.getloadavg()[0],
    }


def flags_of(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> list[str]:
    """The flags that differ from their defaults, as a user would type them.

    Of a path only its last name: its folder belongs to this machine.
    """
    flags: list[str] = []
    for name, value in vars(arguments).items():
        if value == parser.get_default(name) or name in ("out", "weights"):
            continue
        flags.append(f"--{name.replace('_', '-')}")
        if value is not True:
            values = value if isinstance(value, list) else [value]
            flags += [item.name if isinstance(item, Path) else str(item) for item in values]
    return flags


def write(results: Mapping[str, Any], folder: Path, name: str) -> None:
    """Keep results as a dated file."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}-{results['date']}.json"
    file.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print_progress(f"wrote {file.name}")


def limits_contestant(device: str = "cpu") -> Contestant:
    """The contestant that measures the machine's limits; a step is one pass over all of them."""
    return Contestant(
        name="limits",
        make="benchmarks.machine:limits",
        setup={"device": device},
        # huge pages where the system has them: a limit is what can be reached
        environment={"THP_MEM_ALLOC_ENABLE": "1"},
    )


def limits(device: str) -> Callable[[int], dict[str, Any]]:
    """Products in bf16 and float32, and a read of much memory: FLOP/s and bytes/s, the best."""
    import torch

    kind = device.partition(":")[0]
    pairs = {
        (dtype, shape): factors(torch, dtype, shape, device)
        for dtype in ("bfloat16", "float32")
        for shape in PRODUCTS[kind]
    }
    memory = torch.ones(READ_BYTES[kind] // 4, device=device)

    def measure(steps: int) -> dict[str, Any]:
        best = {"bfloat16": 0.0, "float32": 0.0, "read": 0.0}
        by_processor = dict(best)
        for _ in range(steps):
            for (dtype, (m, k, n)), (left, right) in pairs.items():
                wall, cpu = timed(lambda a=left, b=right: a @ b, kind)
                best[dtype] = max(best[dtype], 2 * m * k * n / wall)
                by_processor[dtype] = max(by_processor[dtype], 2 * m * k * n / cpu)
            for read in (memory.sum, memory.amax):
                wall, cpu = timed(read, kind)
                best["read"] = max(best["read"], READ_BYTES[kind] / wall)
                by_processor["read"] = max(by_processor["read"], READ_BYTES[kind] / cpu)
        return {"best": best, "by_processor": by_processor}

    measure(1)  # warms up
    return measure


def factors(torch: Any, dtype: str, shape: tuple[int, int, int], device: str) -> Any:
    """Two matrices whose product has the shape (m, n)."""
    m, k, n = shape
    kind = getattr(torch, dtype)
    return torch.randn(m, k, device=device).to(kind), torch.randn(k, n, device=device).to(kind)


def timed(call: Callable[[], torch.Tensor], kind: str) -> tuple[float, float]:
    """Seconds by the clock and of the processor."""
    import torch

    if kind == "cuda":
        torch.cuda.synchronize()
    began, started = time.process_time(), time.perf_counter()
    call()
    if kind == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - started, max(time.process_time() - began, 1e-9)


def best_of(turns: Iterable[Turn]) -> dict[str, Mapping[str, float]]:
    """The limits over all turns of `limits`: FLOP/s and bytes/s, by the clock and by processor."""
    limits = [turn.found for turn in turns]
    return {
        clock: {name: max(limit[clock][name] for limit in limits) for name in limits[0][clock]}
        for clock in ("best", "by_processor")
    }
