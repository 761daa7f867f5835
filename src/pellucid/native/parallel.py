"""Memory and threads for code in C: work in parts for several threads, and buffers of huge pages.

The best threads are torch's own OpenMP team: OpenMP's threads spin while they wait, so a second
team would compete for their cores. Without OpenMP, a pool of Python threads does the work; code in
C does not hold Python's lock.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from concurrent.futures import ThreadPoolExecutor
from ctypes import c_int64, c_uint, c_void_p
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pellucid.native.compile import library

_SOURCE = Path(__file__).with_name("parallel.c")


class Threads(NamedTuple):
    """The number of threads, and the address of their `GOMP_parallel`; None for a Python pool.

    Attributes:
        number: how many there are.
        team: the address of `GOMP_parallel`; None for a Python pool.
    """

    number: int
    team: int | None = None


@cache
def _pool(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="pellucid-parts")


@cache
def _by_team(loaded: ctypes.CDLL) -> Any:
    """(team, threads, function, given, count, share)."""
    function = loaded.pellucid_in_parts
    function.argtypes = [c_void_p, c_uint, c_void_p, c_void_p, c_int64, c_int64]
    function.restype = None
    return function


def prepared(function: Any) -> Any:
    """A function of a library, declared to take (address of its argument, first, last)."""
    function.argtypes = [c_void_p, c_int64, c_int64]
    function.restype = None
    return function


def in_parts(
    function: Any, argument: ctypes.Structure, count: int, threads: Threads, *, least: int = 1
) -> None:
    """Call `function(argument, first, last)` for parts of `count` things, at the same time.

    Args:
        function: see `prepared`.
        argument: its first argument.
        count: how many things there are.
        threads: who does the parts.
        least: the smallest part: sharing fewer things takes longer than doing them.
    """
    share = max(least, -(-count // threads.number))
    argument_address = ctypes.addressof(argument)
    if share >= count:
        function(argument_address, 0, count)
        return
    loaded = None if threads.team is None else library(_SOURCE)
    if loaded is not None:
        # call the whole team, even with fewer parts: OpenMP ends the threads that are left out
        run = ctypes.cast(function, c_void_p)
        _by_team(loaded)(threads.team, threads.number, run, argument_address, count, share)
        return
    parts = [(first, min(first + share, count)) for first in range(0, count, share)]
    # the pool's threads sleep between calls; this thread does the first part
    futures = [
        _pool(threads.number).submit(function, argument_address, *part) for part in parts[1:]
    ]
    function(argument_address, *parts[0])
    for future in futures:
        future.result()


def huge_buffer(size: int) -> mmap.mmap | bytearray:
    """`size` writable bytes of zeros; on Linux in pages of two megabytes, if the system has them.

    In pages of four kilobytes the processor spends time on address translation: multiplying a large
    matrix by a vector takes a fifth to a third longer.
    """
    if sys.platform != "linux" or size == 0:
        return bytearray(size)
    buffer = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    buffer.madvise(mmap.MADV_HUGEPAGE)
    return buffer
