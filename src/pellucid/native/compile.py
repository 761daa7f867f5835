"""C compiled once on the machine it runs on, kept, and loaded.

Libraries are kept in the folder that `PELLUCID_NATIVE` names, or beside what else is kept.

The name of a library is a hash of all that went into it (source, flags, compiler, processor) and a
hash of its own bytes. So what is stale is not found, and what is damaged is not loaded. It comes to
be beside its place and is renamed at the end, so that several processes may compile at once.

A name proves nothing about who wrote a file. So a library is only loaded from a folder that nobody
else can write to; if the usual one is not such a folder, this process compiles for itself alone.
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
#: Sums in any order only where the source says so: no -ffast-math.
_FLAGS = ("-O3", "-march=native", "-fopenmp-simd", "-fPIC", "-shared", "-pthread")
#: Seconds after which a compiler is given up.
_PATIENCE = 60
_SHARED = (
    "other users can write to %s or to a folder above it, so no compiled code is loaded from "
    "there, and this process compiles its own: take that right away with `chmod go-w`, or name "
    "another folder in PELLUCID_NATIVE"
)

_allowed: ContextVar[bool] = ContextVar("_allowed", default=True)


@contextmanager
def allowed(yes: bool) -> Generator[None]:
    """Within it, code in C is run or not: a training that began without it goes on so."""
    token = _allowed.set(yes)
    try:
        yield
    finally:
        _allowed.reset(token)


def is_disabled() -> bool:
    """Whether the model itself is to do what faster code would: `PELLUCID_NATIVE=off`."""
    return os.environ.get("PELLUCID_NATIVE") == "off"


def library(source: Path) -> ctypes.CDLL | None:
    """`source`, compiled and loaded, once in a process."""
    if is_disabled() or not _allowed.get():
        return None
    places = (os.environ.get("PELLUCID_NATIVE"), os.environ.get("PELLUCID_CACHE"))
    return _library(source, os.environ.get("CC"), places)


@cache
def _library(source: Path, compiler: str | None, _: object) -> ctypes.CDLL | None:
    try:
        command = _compiler(compiler)
        if command is None:
            _log.info("no C compiler was found: %s is done without", source.name)
            return None
        return ctypes.CDLL(str(_compiled(source, command)))
    except (OSError, children.ChildError) as error:
        reason = str(error).strip().splitlines()[-1]
        _log.warning("%s is done without, slower: %s", source.name, reason)
        return None


def _compiler(requested: str | None) -> list[str] | None:
    """The words of the command: `$CC`, or the first of the usual names that is there."""
    if sys.platform not in ("linux", "darwin"):
        return None
    for command in (shlex.split(requested),) if requested else ([name] for name in _COMPILERS):
        path = children.program(command[0]) if command else None
        if path is not None:
            return [path, *command[1:]]
    return None


def _compiled(source: Path, command: list[str]) -> Path:
    """The file of the library; compiled now, if none is kept that is whole.

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
    sources = sorted(source.parent.glob("*.[ch]"))  # what it includes, too
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
    """What a program printed, run in the empty folder `scratch`.

    Raises:
        OSError, ChildError: it failed, or took too long.
    """
    process = children.run(command, seconds=_PATIENCE, folder=scratch)
    if process.returncode:
        raise OSError(process.stderr.strip() or f"{command[0]} ended with {process.returncode}")
    return process.stdout


def _place() -> Path:
    """Where libraries are kept; where nothing can be kept safely, a folder for this process.

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
    """What the processor can do: code for it need not run on another one."""
    if sys.platform == "darwin":
        return _output_of(["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"], scratch)
    words = ("flags", "Features", "model name", "isa")
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return "\n".join(sorted({line for line in lines if line.startswith(words)}))
