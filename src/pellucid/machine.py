"""The machine that pellucid runs on: facts in rows, and advice by what the facts say.

Must not know: runs.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata, version
from pathlib import Path
from typing import NamedTuple

import torch

from pellucid.cores import load, usable_cores
from pellucid.display.numbers import size
from pellucid.free_memory import Free, free_memory
from pellucid.native import compile as native
from pellucid.printable import plural
from pellucid.version import __version__

#: How large a page of memory may be: the kernel's own choice is in brackets.
_HUGE_PAGES = "sys/kernel/mm/transparent_hugepage/enabled"
#: Less memory or disk than this is tight for the default training with its checkpoints.
_LITTLE_MEMORY, _LITTLE_DISK = 2 * 2**30, 2**30
#: The packages whose versions a bug report needs.
_REPORTED = ("torch", "numpy", "tokenizers", "safetensors", "transformers")
#: Extras for people who work on pellucid itself.
_FOR_DEVELOPERS = {"dev", "parity", "nightly", "api-tests", "browser", "checks"}
_REQUIREMENT = re.compile(r"([\w.-]+)[^;]*;\s*extra\s*==\s*['\"]([\w-]+)['\"]")
#: Rows and columns of the matrices, and how long each type is measured.
_SIZE, _SECONDS = 1024, 0.2


class Speed(NamedTuple):
    """Operations per second in matrix products, at best, with torch's threads."""

    float32: float
    bfloat16: float

    @property
    def ratio(self) -> float:
        """How many times faster bfloat16 is."""
        return self.bfloat16 / self.float32


@dataclass(frozen=True, slots=True)
class Advice:
    """What slows pellucid here, and what helps."""

    problem: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Machine:
    """The facts as rows of a name and a value, and the advice that they lead to."""

    rows: tuple[tuple[str, str], ...]
    advice: tuple[Advice, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What the examination saw."""

    cores: int
    threads: int
    load: float
    huge_pages: str
    has_compiler: bool
    is_native_off: bool
    free: Free | None
    free_disk: int
    speed: Speed
    missing: tuple[str, ...] | None


def examine(root: Path = Path("/")) -> Machine:
    """Look at this machine; it takes about a second.

    Args:
        root: where the files of the system are.
    """
    findings = Findings(
        cores=usable_cores(),
        threads=torch.get_num_threads(),
        load=load(),
        huge_pages=_huge_pages(root),
        has_compiler=native.compiler() is not None,
        is_native_off=native.is_disabled(),
        free=free_memory(root),
        free_disk=shutil.disk_usage(".").free,
        speed=matmul_speed(),
        missing=missing_extras(),
    )
    return Machine(tuple(_rows(findings, root)), tuple(advise(findings)))


def _rows(findings: Findings, root: Path) -> Iterator[tuple[str, str]]:
    yield "pellucid", __version__
    yield "system", f"{platform.system()} {platform.release()}, {platform.machine()}"
    yield "Python", f"{platform.python_implementation()} {platform.python_version()}"
    yield "packages", ", ".join(f"{name} {v}" for name, v in installed_versions(_REPORTED).items())
    yield "processor", processor_name(root)
    yield "instructions", torch.backends.cpu.get_cpu_capability()
    threads = f"{findings.threads} {plural(findings.threads, 'thread')} in torch"
    yield "cores", f"{findings.cores} for this process, {threads}"
    yield "load", f"{findings.load:.1f} processes in the last minute"
    speed = findings.speed
    yield "float32", f"{speed.float32 / 1e9:,.0f} GFLOP/s in matrix products"
    yield "bfloat16", f"{speed.bfloat16 / 1e9:,.0f} GFLOP/s, {speed.ratio:.1f} times float32"
    yield "GPU", _gpus()
    free = findings.free
    yield "free memory", "unknown" if free is None else f"{size(free.n_bytes)}, {free.limited_by}"
    yield "free disk", f"{size(findings.free_disk)} here"
    yield "huge pages", findings.huge_pages
    yield "C compiler", "found" if findings.has_compiler else "none"
    if findings.missing is None:
        yield "extras not installed", "unknown: pellucid runs from its source, not installed"
    else:
        yield "extras not installed", ", ".join(findings.missing) or "none"


def advise(findings: Findings) -> Iterator[Advice]:
    """What slows pellucid, by the findings, and what helps."""
    if findings.load > 0.5 * findings.cores:
        yield Advice(
            f"other programs use the cores (load {findings.load:.1f} on {findings.cores})",
            "close them, or train with OMP_NUM_THREADS=1",
        )
    if findings.threads < findings.cores and "OMP_NUM_THREADS" in os.environ:
        yield Advice(
            f"torch computes with {findings.threads} of {findings.cores} "
            f"{plural(findings.cores, 'core')}",
            "unset OMP_NUM_THREADS",
        )
    if findings.is_native_off:
        yield Advice("PELLUCID_NATIVE=off forbids the faster code in C", "unset it")
    elif not findings.has_compiler:
        yield Advice(
            "there is no C compiler, so generating and large vocabularies are slower",
            "install gcc or clang",
        )
    if findings.huge_pages == "never":
        yield Advice(
            "the system gives no huge pages, so large updates are slower",
            "as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        )
    if findings.free is not None and findings.free.n_bytes < _LITTLE_MEMORY:
        yield Advice(
            f"only {size(findings.free.n_bytes)} of memory are free",
            "close programs, or choose a smaller model or batch",
        )
    if findings.free_disk < _LITTLE_DISK:
        yield Advice(
            f"only {size(findings.free_disk)} of disk are free here",
            "make room, or write runs elsewhere with --out",
        )


def processor_name(root: Path = Path("/")) -> str:
    """The processor's name, such as the system lists it."""
    file = root / "proc/cpuinfo"
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _huge_pages(root: Path) -> str:
    file = root / _HUGE_PAGES
    text = file.read_text(encoding="ascii") if file.is_file() else ""
    return text.partition("[")[2].partition("]")[0] or "unknown"


def _gpus() -> str:
    if torch.cuda.is_available():
        count = torch.cuda.device_count()
        return ", ".join(torch.cuda.get_device_name(number) for number in range(count))
    return "mps" if torch.backends.mps.is_available() else "none that torch can use"


def matmul_speed() -> Speed:
    """Multiply square matrices for a moment, in each type."""
    return Speed(*(_measure(dtype) for dtype in (torch.float32, torch.bfloat16)))


def _measure(dtype: torch.dtype) -> float:
    matrix = torch.ones(_SIZE, _SIZE, dtype=dtype)
    torch.mm(matrix, matrix)  # warms up
    best, began = 0.0, time.perf_counter()
    while time.perf_counter() - began < _SECONDS:
        start = time.perf_counter()
        torch.mm(matrix, matrix)
        best = max(best, 2 * _SIZE**3 / (time.perf_counter() - start))
    return best


def installed_versions(packages: Iterable[str]) -> dict[str, str]:
    """The versions of those packages that are installed, by name."""
    versions: dict[str, str] = {}
    for name in packages:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


def missing_extras() -> tuple[str, ...] | None:
    """The extras of pellucid that are not installed; None if pellucid itself is not."""
    packages_of: dict[str, list[str]] = {}
    try:
        lines = metadata("pellucid").get_all("Requires-Dist") or []
    except PackageNotFoundError:
        return None
    for line in lines:
        match = _REQUIREMENT.match(line)
        if match is not None and match[2] not in _FOR_DEVELOPERS:
            packages_of.setdefault(match[2], []).append(match[1])
    return tuple(
        extra
        for extra, packages in packages_of.items()
        if len(installed_versions(packages)) < len(packages)
    )
