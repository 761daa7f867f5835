"""The cores that this process may use, and how busy they are.

Must not know: torch.
"""

from __future__ import annotations

import logging
import math
import os
from functools import cache
from pathlib import Path

_LOG = logging.getLogger(__name__)
#: Turns that a waiting thread of torch spins before it sleeps: some tens of microseconds.
_SPIN_COUNT = "10000"


def let_waiting_threads_sleep() -> None:
    """Let torch's waiting threads give up their core soon, for any other program that wants it.

    By default they spin for milliseconds: if something else uses a core meanwhile, as it may begin
    to at any time, each operation waits for a thread that has no core, and an update takes ten
    times as long. On a quiet machine the short wait costs a few percent. Numbers do not change. A
    variable that you set stays as it is.
    """
    os.environ.setdefault("GOMP_SPINCOUNT", _SPIN_COUNT)


@cache
def warn_of_spinning() -> None:
    """Say once what helps if torch is loaded already and its threads will spin on busy cores."""
    if are_busy() and not {"GOMP_SPINCOUNT", "OMP_NUM_THREADS"} & set(os.environ):
        _LOG.warning(
            "other programs use the cores (load %.1f on %d), and torch was imported before "
            "pellucid: its threads may wait for each other, which makes updates up to ten times "
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
