"""Compile C once on the machine that runs it, cache the library, and load it.

Libraries are in the folder that `PELLUCID_NATIVE` names, or in the cache folder.

The name of a library has a hash of all its ingredients (source, flags, compiler, processor) and a
hash of its own bytes. So a stale or damaged library is never loaded. pellucid compiles into a
temporary folder and renames the result at the end, so several processes can compile at once.

A name does not prove who wrote a file. So a library is only loaded from a folder that no other user
can write to. If the usual folder is not safe, this process compiles its own library.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import logging
import os
import platform
import shlex
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from pathlib import Path

from pellucid import children
from pellucid.cache_dir import cache_folder, is_private, private_folder
from pellucid.disk import move

_log = logging.getLogger(__name__)

_COMPILERS = ("cc", "gcc", "clang")
#: No -ffast-math: the compiler reorders sums only where the source allows it. Nothing reads the
#: processor's record of exceptions; to keep it, gcc would leave a loop with a bound, as in e^x, one
#: number at a time without AVX-512.
_FLAGS = (
    *("-O3", "-march=native", "-fno-trapping-math"),
    *("-fopenmp-simd", "-fPIC", "-shared", "-pthread"),
)
#: Seconds after which a compiler is stopped.
_TIMEOUT = 60
_SHARED = (
    "other users can write to %s or to a folder above it, so no compiled code is loaded from "
    "there, and this process compiles its own: take that right away with `chmod go-w`, or name "
    "another folder in PELLUCID_NATIVE"
)

_allowed: ContextVar[bool] = ContextVar("_allowed", default=True)


@contextmanager
def allowed(yes: bool) -> Generator[None]:
    """Allow or forbid code in C within the context: a resumed run computes as it started."""
    token = _allowed.set(yes)
    try:
        yield
    finally:
        _allowed.reset(token)


def is_disabled() -> bool:
    """Whether `PELLUCID_NATIVE=off` forbids faster code than the model's own."""
    return os.environ.get("PELLUCID_NATIVE") == "off"


def library(source: Path) -> ctypes.CDLL | None:
    """The compiled and loaded `source`, once per process; None if that fails."""
    if is_disabled() or not _allowed.get():
        return None
    places = (os.environ.get("PELLUCID_NATIVE"), os.environ.get("PELLUCID_CACHE"))
    return _library(source, os.environ.get("CC"), places)


@cache
def _library(source: Path, compiler: str | None, _: object) -> ctypes.CDLL | None:
    try:
        command = _compiler(compiler)
        if command is None:
            _log.info("no C compiler was found: pellucid works without %s", source.name)
            return None
        return ctypes.CDLL(str(_compiled(source, command)))
    except (OSError, children.ChildError) as error:
        reason = str(error).strip().splitlines()[-1]
        _log.warning("pellucid works without %s, more slowly: %s", source.name, reason)
        return None


def compiler() -> list[str] | None:
    """The command of the C compiler that pellucid uses, in words; None if there is none."""
    return _compiler(os.environ.get("CC"))


def _compiler(requested: str | None) -> list[str] | None:
    """The command in words: `$CC`, or the first usual compiler that exists."""
    if sys.platform not in ("linux", "darwin"):
        return None
    for command in (shlex.split(requested),) if requested else ([name] for name in _COMPILERS):
        path = children.program(command[0]) if command else None
        if path is not None:
            return [path, *command[1:]]
    return None


def _compiled(source: Path, command: list[str]) -> Path:
    """The file of the library; compiled now if no valid one is cached.

    Raises:
        OSError, ChildError: it cannot be compiled.
    """
    place = _place()
    with tempfile.TemporaryDirectory(dir=place, prefix="partial-") as scratch:
        return _library_in(place, source, command, Path(scratch))


def _library_in(place: Path, source: Path, command: list[str], scratch: Path) -> Path:
    version = _output_of([*command, "--version"], scratch)
    ingredients = "\0".join(
        (*command, *_FLAGS, version, _processor(scratch), platform.libc_ver()[1])
    )
    sources = sorted(source.parent.glob("*.[ch]"))  # with the files that it includes
    content = b"".join(file.read_bytes() for file in sources)
    key = hashlib.sha256(content + ingredients.encode()).hexdigest()[:20]
    stem = f"{source.stem}-{key}"
    for cached in place.glob(f"{stem}-*.so"):
        if not is_private(cached):
            continue
        if cached.stem.rpartition("-")[2] == _digest(cached):
            return cached
    built = scratch / "made.so"
    _output_of([*command, *_FLAGS, str(source), "-o", str(built), "-lm"], scratch)
    built.chmod(0o700)
    goal = place / f"{stem}-{_digest(built)}.so"
    move(built, goal)
    return goal


def _output_of(command: list[str], scratch: Path) -> str:
    """The output of a program that runs in the empty folder `scratch`.

    Raises:
        OSError, ChildError: it failed, or took too long.
    """
    process = children.run(command, seconds=_TIMEOUT, folder=scratch)
    if process.returncode:
        raise OSError(process.stderr.strip() or f"{command[0]} ended with {process.returncode}")
    return process.stdout


def _place() -> Path:
    """The folder of libraries; a temporary one for this process if no other is safe.

    Raises:
        OSError: no folder here is safe.
    """
    requested = os.environ.get("PELLUCID_NATIVE")
    folder = Path(requested) if requested else cache_folder("native")
    if folder is not None:
        with suppress(OSError):
            private = private_folder(folder)
            if private is not None and os.access(private, os.W_OK):
                return private
            if private is None:
                _log.warning(_SHARED, folder)
    passing = tempfile.TemporaryDirectory(prefix="pellucid-native-", ignore_cleanup_errors=True)
    atexit.register(passing.cleanup)
    private = private_folder(Path(passing.name))
    if private is None:
        raise OSError(f"other users can write to {tempfile.gettempdir()}: set TMPDIR to your own")
    return private


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:20]


def _processor(scratch: Path) -> str:
    """The features of the processor: its code may not run on another one."""
    if sys.platform == "darwin":
        return _output_of(["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"], scratch)
    words = ("flags", "Features", "model name", "isa")
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return "\n".join(sorted({line for line in lines if line.startswith(words)}))
