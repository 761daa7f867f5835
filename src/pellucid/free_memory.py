"""The free memory of a process: of the machine, and of the control groups that confine it.

A control group has a limit, and so has each group above it. It counts pages of files that it could
drop as used; pellucid counts them as free.

Must not know: torch, what uses the memory.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

#: Version 1 writes a number near 2^63 if there is no limit.
_NO_LIMIT = 2**60
#: glibc's M_MMAP_THRESHOLD, M_TRIM_THRESHOLD and M_TOP_PAD.
_MALLOC_OPTIONS = ((-3, 2**30), (-1, 2**31 - 1), (-2, 64 * 2**20))

#: Linux's MADV_DONTNEED.
_DONTNEED = 4

_forced = ContextVar("forced", default=False)


@dataclass(frozen=True, slots=True, order=True)
class Free:
    """Bytes that can still be had, and what bounds them."""

    n_bytes: int
    limited_by: str


class _Files(NamedTuple):
    """What the files of one version of control groups are called."""

    limit: str
    used: str
    droppable: str


_V2 = _Files("memory.max", "memory.current", "inactive_file")
_V1 = _Files("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def free_memory(root: Path = Path("/")) -> Free | None:
    """The least free memory of the machine and its control groups; None if it is unknown."""
    readings = [*_machine(root), *_groups(root)]
    return min(readings, default=None)


@contextmanager
def forcing(force: bool) -> Generator[None]:
    """With `force`, no work inside is refused for lack of memory."""
    token = _forced.set(force or is_forced())
    try:
        yield
    finally:
        _forced.reset(token)


def is_forced() -> bool:
    """Whether to continue even if the work may need more memory than is free."""
    return _forced.get()


def resident_memory(root: Path = Path("/")) -> int:
    """The memory of this process now, in bytes; 0 if the system does not tell."""
    pages = _read(root / "proc/self/statm").split()
    return int(pages[1]) * os.sysconf("SC_PAGE_SIZE") if len(pages) > 1 else 0


def keep_freed_memory(*, huge_pages: bool = True) -> None:
    """Let the C library keep freed memory for the next step, in huge pages.

    glibc returns large blocks to the system as soon as they are free, so every step would fault all
    its pages in again. With these settings the blocks stay, and torch asks for pages of 2 MB if the
    system has them. Another C library, or variables of the environment, leave memory as it is.

    Args:
        huge_pages: whether torch asks for them. They are resident as a whole, so a cache that is
            mostly empty needs less memory without them.
    """
    if sys.platform != "linux":
        return
    if huge_pages:
        os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # torch's own switch
    if any(name.startswith("MALLOC_") for name in os.environ):
        return
    import ctypes

    with suppress(OSError, AttributeError):  # another C library than glibc
        mallopt = ctypes.CDLL("libc.so.6").mallopt
        for option, n_bytes in _MALLOC_OPTIONS:
            mallopt(option, n_bytes)


def return_freed_memory() -> None:
    """Give memory that is free in this process back to the system, if its C library can do so."""
    if sys.platform == "linux":
        import ctypes

        with suppress(OSError, AttributeError):  # another C library than glibc
            ctypes.CDLL("libc.so.6").malloc_trim(0)


def unmap_idle_code() -> None:
    """Unmap the pages of programs and libraries; the system maps one again as soon as it is used.

    To start torch touches 75 MB of them, most of which is never used again. They stay in the
    system's cache. Pages with changes of this process stay as they are.
    """
    if sys.platform != "linux":
        return
    import ctypes

    with suppress(OSError, AttributeError):
        madvise = ctypes.CDLL("libc.so.6").madvise
        madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        for start, end in _unchanged_code(_read(Path("/proc/self/smaps"))):
            madvise(start, end - start, _DONTNEED)


def _unchanged_code(smaps: str) -> Iterator[tuple[int, int]]:
    """The mappings of code from files, from their first address to the one after the last."""
    span: tuple[int, int] | None = None
    for line in smaps.splitlines():
        words = line.split()
        if len(words) > 4 and "-" in words[0]:
            is_code = len(words) > 5 and words[1] == "r-xp" and words[5].startswith("/")
            first, _, last = words[0].partition("-")
            span = (int(first, 16), int(last, 16)) if is_code else None
        elif words[0] == "Anonymous:" and span is not None and words[1] == "0":
            yield span


def _machine(root: Path) -> Iterator[Free]:
    for line in _read(root / "proc/meminfo").splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            yield Free(int(value.split()[0]) * 1024, "this machine")
            return
    if sys.platform == "win32" and (n_bytes := _windows()) is not None:
        yield Free(n_bytes, "this machine")


def _windows() -> int | None:
    import ctypes

    class Status(ctypes.Structure):
        _fields_ = (
            ("length", ctypes.c_ulong),
            ("load", ctypes.c_ulong),
            *(
                (name, ctypes.c_ulonglong)
                for name in ["total", "free", "page", "pages", "virtual", "free_", "x"]
            ),
        )

    status = Status(length=ctypes.sizeof(Status))
    kernel = getattr(ctypes, "windll").kernel32  # noqa: B009  there on Windows alone
    return int(status.free) if kernel.GlobalMemoryStatusEx(ctypes.byref(status)) else None


def _groups(root: Path) -> Iterator[Free]:
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, _, group = line.partition(":")
        controllers, _, path = group.partition(":")
        if not controllers:
            yield from _upwards(root / "sys/fs/cgroup", path, _V2)
        elif "memory" in controllers.split(","):
            yield from _upwards(root / "sys/fs/cgroup/memory", path, _V1)


def _upwards(mount: Path, path: str, files: _Files) -> Iterator[Free]:
    """The group and all above it; a container that does not see its own path sees it as /."""
    relative_path = PurePosixPath(path.lstrip("/"))
    for group in (relative_path, *relative_path.parents):
        folder = mount / group
        limit, used = (_number(folder / name) for name in (files.limit, files.used))
        if limit is None or used is None or limit >= _NO_LIMIT:
            continue
        used -= min(used, _droppable(folder / "memory.stat", files.droppable))
        yield Free(max(0, limit - used), f"the control group {PurePosixPath('/') / group}")


def _droppable(file: Path, name: str) -> int:
    for line in _read(file).splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    return 0


def _number(file: Path) -> int | None:
    text = _read(file).strip()
    return int(text) if text.isdigit() else None


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
