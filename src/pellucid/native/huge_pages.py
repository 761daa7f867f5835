"""Memory that is read from end to end again and again: in pages of two megabytes, where there are.

With pages of four kilobytes the processor spends its time looking up where they are: a matrix times
a vector takes a fifth to a third longer.
"""

from __future__ import annotations

import mmap
import sys


def huge_buffer(size: int) -> mmap.mmap | bytearray:
    """`size` bytes of zeros to write to; on Linux in huge pages, as far as the system has them."""
    if sys.platform != "linux" or size == 0:
        return bytearray(size)
    buffer = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    buffer.madvise(mmap.MADV_HUGEPAGE)
    return buffer
