"""Work cut into parts for several threads.

The threads are best those that the rest of the computation keeps: OpenMP's wait for more work
awake, at the cost of whoever else wants their cores. Where there are none, a pool of Python's does
it; code in C lets other threads of Python run meanwhile.
"""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from ctypes import c_int64, c_uint, c_void_p
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pellucid.native.compile import library

_SOURCE = Path(__file__).with_name("parallel.c")


class Threads(NamedTuple):
    """How many threads, and the address of the `GOMP_parallel` that calls them; None: a pool."""

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
    """A function of a library, declared to take (address of what it is given, first, last)."""
    function.argtypes = [c_void_p, c_int64, c_int64]
    function.restype = None
    return function


def in_parts(
    function: Any, argument: ctypes.Structure, count: int, threads: Threads, *, least: int = 1
) -> None:
    """Call `function(given, first, last)` so that all of `count` things are done.

    Args:
        function: see `prepared`. Of a part; parts are done at the same time.
        least: things that one thread does by itself: to share fewer takes longer.
    """
    share = max(least, -(-count // threads.number))
    argument_address = ctypes.addressof(argument)
    if share >= count:
        function(argument_address, 0, count)
        return
    loaded = None if threads.team is None else library(_SOURCE)
    if loaded is not None:
        # all of the threads, whether or not there is a part for each: a smaller team ends the rest
        run = ctypes.cast(function, c_void_p)
        _by_team(loaded)(threads.team, threads.number, run, argument_address, count, share)
        return
    parts = [(first, min(first + share, count)) for first in range(0, count, share)]
    # the pool's threads sleep between calls; this one does the first part itself
    waiting = [
        _pool(threads.number).submit(function, argument_address, *part) for part in parts[1:]
    ]
    function(argument_address, *parts[0])
    for future in waiting:
        future.result()
