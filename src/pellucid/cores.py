"""The cores that this process may use, and how busy they are."""

from __future__ import annotations

import math
import os
from pathlib import Path

#: Turns that a waiting thread of torch spins before it sleeps, where cores are shared.
_SPIN_COUNT = "1000"


def share_busy_cores() -> None:
    """Let waiting threads give up their core soon, if other programs use the cores now.

    Threads that spin while they wait make an update two to four times as long on a busy machine;
    on a quiet one spinning is a little faster. Numbers do not change. A variable that you set stays
    as it is.
    """
    if load() > 0.5 * usable_cores():
        os.environ.setdefault("GOMP_SPINCOUNT", _SPIN_COUNT)


def load() -> float:
    """The processes that ran or waited in the last minute; 0 if the system does not tell."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def usable_cores(root: Path = Path("/")) -> int:
    """The cores that this process may use: of the machine, its affinity, and its control group.

    Args:
        root: where the files of the system are.
    """
    allowed = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        allowed = len(os.sched_getaffinity(0))
    quota, _, period = _read(root / "sys/fs/cgroup/cpu.max").partition(" ")
    if quota.isdecimal() and period.strip().isdecimal():
        allowed = min(allowed, max(1, math.ceil(int(quota) / int(period))))
    return allowed


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii")
    except OSError:
        return ""
