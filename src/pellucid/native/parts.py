"""Work cut into parts for several threads.

Comes in: a function of the first and last of a row of things. Goes out: the function called for all
of them. It does not know what it does. Code in C lets other threads of Python run meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache


@cache
def _threads(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="pellucid-parts")


def in_parts(work: Callable[[int, int], None], count: int, threads: int) -> None:
    """Call `work(first, last)` so that all of `count` things are done, by so many threads."""
    share = -(-count // max(1, min(threads, count)))
    parts = [(first, min(first + share, count)) for first in range(0, count, share)]
    # the pool's threads sleep between calls; this one does the first part itself
    waiting = [_threads(threads).submit(work, *each) for each in parts[1:]]
    work(*parts[0])
    for each in waiting:
        each.result()
