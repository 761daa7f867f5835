"""Settings of the process that make a CPU faster; results stay the same."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys

# glibc's malloc.h
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3


def settle(*, plain_memory: bool = False) -> None:
    """Keep freed memory for the next step, in huge pages.

    glibc gives large blocks back to the system as soon as they are free, so that every step faults
    all its pages in anew; here they stay, and torch asks for pages of 2 MB where the system grants
    them on request. With `plain_memory`, and with another C library, memory is as the system has
    it. Each is left alone where the environment has chosen.
    """
    if plain_memory or sys.platform != "linux":
        return
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # torch's own switch
    if any(name.startswith("MALLOC_") for name in os.environ):
        return
    with contextlib.suppress(OSError, AttributeError):  # another C library than glibc
        mallopt = ctypes.CDLL("libc.so.6").mallopt
        mallopt(_M_MMAP_THRESHOLD, 2**30)
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
        mallopt(_M_TOP_PAD, 64 * 2**20)
