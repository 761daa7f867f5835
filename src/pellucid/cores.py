"""The cores that this process may use, and how busy they are."""

from __future__ import annotations

import logging
import math
import os
from functools import cache
from pathlib import Path

_LOG = logging.getLogger(__name__)
#: Turns that a waiting thread of torch spins before it sleeps, where cores are shared.
_SPIN_COUNT = "1000"


def share_busy_cores() -> None:
    """Let waiting threads give up their core soon, if other programs use the cores now.

    Threads that spin while they wait make an update two to four times as long on a busy machine;
    on a quiet one spinning is a little faster. Numbers do not change. A variable that you set stays
    as it is.
    """
    if are_busy():
        os.environ.setdefault("GOMP_SPINCOUNT", _SPIN_COUNT)


@cache
def warn_of_spinning() -> None:
    """Say once what helps if torch is loaded already and its threads will spin on busy cores."""
    if are_busy() and not {"GOMP_SPINCOUNT", "OMP_NUM_THREADS"} & set(os.environ):
        _LOG.warning(
            "other programs use the cores (load %.1f on %d), and torch was imported before "
            "pellucid: its threads may wait for each other, which makes updates two to four times "
            "as long; call torch.set_num_threads(1), or import pellucid first",
            load(),
            usable_cores(),
        )


def are_busy() -> bool:
    """Whether other programs use more than half of the cores."""
    return load() > 0.5 * usable_cores()


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
