"""C compiled once on the machine it runs on, kept, and loaded.

Comes in: a C file. Goes out: the loaded library, or None where there is no compiler, where it
fails, or where `PELLUCID_NATIVE` is "off": what calls it has another way. It does not know what the
code does.

Libraries are kept in the folder that `PELLUCID_NATIVE` names, or beside what else is kept.

The name of a library is a hash of all that went into it (source, flags, compiler, processor) and a
hash of its own bytes. So what is stale is not found, and what is damaged is not loaded. It comes to
be beside its place and is renamed at the end, so that several processes may compile at once.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import logging
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from pathlib import Path

from pellucid.disk import move
from pellucid.places import cache_folder

_log = logging.getLogger(__name__)

_COMPILERS = ("cc", "gcc", "clang")
#: Sums in any order only where the source says so: no -ffast-math.
_FLAGS = ("-O3", "-march=native", "-fopenmp-simd", "-fPIC", "-shared", "-pthread")
#: Seconds after which a compiler is given up.
_PATIENCE = 60


_allowed: ContextVar[bool] = ContextVar("_allowed", default=True)


@contextmanager
def allowed(yes: bool) -> Generator[None]:
    """Within it, code in C is run or not: a training that began without it goes on so."""
    token = _allowed.set(yes)
    try:
        yield
    finally:
        _allowed.reset(token)


def turned_off() -> bool:
    """Whether the model itself is to do what faster code would: `PELLUCID_NATIVE=off`."""
    return os.environ.get("PELLUCID_NATIVE") == "off"


def library(source: Path) -> ctypes.CDLL | None:
    """`source`, compiled and loaded, once in a process."""
    if turned_off() or not _allowed.get():
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
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        _log.warning("%s is done without, slower: %s", source.name, said.strip().splitlines()[-1])
        return None


def _compiler(chosen: str | None) -> list[str] | None:
    """The words of the command: `$CC`, or the first of the usual names that is there."""
    if sys.platform not in ("linux", "darwin"):
        return None
    for command in (shlex.split(chosen),) if chosen else ([name] for name in _COMPILERS):
        if command and shutil.which(command[0]):
            return list(command)
    return None


def _compiled(source: Path, command: list[str]) -> Path:
    """The file of the library; compiled now, if none is kept that is whole.

    Raises:
        OSError, SubprocessError: it cannot be compiled.
    """
    version = subprocess.run(
        [*command, "--version"], capture_output=True, text=True, check=True, timeout=_PATIENCE
    )
    made_of = "\0".join((*command, *_FLAGS, version.stdout, _processor(), platform.libc_ver()[1]))
    sources = sorted(source.parent.glob("*.[ch]"))  # what it includes, too
    content = b"".join(each.read_bytes() for each in sources)
    key = hashlib.sha256(content + made_of.encode()).hexdigest()[:20]
    stem = f"{source.stem}-{key}"
    place = _place()
    for kept in place.glob(f"{stem}-*.so"):
        if kept.stem.rpartition("-")[2] == _digest(kept):
            return kept
    with tempfile.TemporaryDirectory(dir=place, prefix="partial-") as scratch:
        made = Path(scratch) / "made.so"
        subprocess.run(
            [*command, *_FLAGS, str(source), "-o", str(made), "-lm"],
            capture_output=True,
            text=True,
            check=True,
            timeout=_PATIENCE,
        )
        goal = place / f"{stem}-{_digest(made)}.so"
        move(made, goal)
    return goal


def _place() -> Path:
    """Where libraries are kept; where nothing is to be kept, a folder for this process."""
    chosen = os.environ.get("PELLUCID_NATIVE")
    folder = Path(chosen) if chosen else cache_folder("native")
    if folder is not None:
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK):
                return folder
    passing = tempfile.TemporaryDirectory(prefix="pellucid-native-", ignore_cleanup_errors=True)
    atexit.register(passing.cleanup)
    return Path(passing.name)


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:20]


def _processor() -> str:
    """What the processor can do: code for it need not run on another one."""
    if sys.platform == "darwin":
        asked = ["sysctl", "-n", "machdep.cpu.brand_string"]
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    words = ("flags", "Features", "model name", "isa")
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return "\n".join(sorted({line for line in lines if line.startswith(words)}))
