"""The threads that torch computes with, for code in C beside it.

torch's threads wait awake for some milliseconds after each of its operations. Another pool's would
share the cores with them, and two threads would be no faster than one.

Must not know: what they compute.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from pathlib import Path

import torch

from pellucid.native import Threads


def threads() -> Threads:
    """As many as torch is told to use now."""
    return Threads(torch.get_num_threads(), _team())


@cache
def _team() -> int | None:
    """The address of `GOMP_parallel` in the OpenMP that torch is linked to; None if it has none."""
    if sys.platform != "linux":
        return None
    try:
        # a name is looked up in what a library is linked to, too
        torchs = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        return ctypes.cast(torchs.GOMP_parallel, ctypes.c_void_p).value
    except (OSError, AttributeError):
        return None
