"""Other processes, started so that they run no code of the folder that you are in.

This is the only module that starts one.

A `json.py`, a `torch.py` or a `cc` in the working folder never runs in place of the real one.
pellucid starts programs by their absolute path, and Python with `-I`. From every list of folders
that a process searches it drops the relative entries, which mean the working folder.

Must not know: what a process is for.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

#: Lists of folders in which a process, or the compiler, looks for files to run or load. An empty
#: entry means the working folder, as "." does.
_SEARCHED = (
    "PATH",
    "PYTHONPATH",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "COMPILER_PATH",
    "LIBRARY_PATH",
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
)

Child = subprocess.Popen[bytes]
ChildError = subprocess.SubprocessError


def environment() -> dict[str, str]:
    """The environment for a child: this process's, without relative folders to search."""
    variables = dict(os.environ)
    for name in _SEARCHED:
        if name in variables:
            variables[name] = _absolute(variables[name])
    return variables


def program(name: str) -> str | None:
    """The absolute path of a program: looked up in `PATH`, but not in the working folder.

    A name with a slash in it is a path that the user chose; it is used as such.
    """
    match = shutil.which(name, path=_absolute(os.environ.get("PATH", os.defpath)))
    return None if match is None else os.path.abspath(match)


def python(code: str) -> list[str]:
    """The command for `code` in another Python, isolated, that imports what this one does."""
    paths = f"sys.path[:] = dict.fromkeys([*{search_path()!r}, *sys.path])"
    return [
        sys.executable,
        "-I",
        "-X",
        f"utf8={sys.flags.utf8_mode}",
        "-c",
        f"import sys; {paths}; {code}",
    ]


def python_file(file: Path) -> list[str]:
    """The command for a file in another Python, which knows its own installed packages alone."""
    return [sys.executable, "-I", "-B", str(file)]


def search_path() -> list[str]:
    """`sys.path` without the working folder and relative folders; ours is always in it."""
    package_folder = str(Path(__file__).resolve().parents[1])
    dropped = {_working_folder(), *map(os.path.abspath, _relative("PYTHONPATH"))}
    path = [entry for entry in sys.path if os.path.isabs(entry) and entry not in dropped]
    # last, so that other packages in our folder do not hide the packages of the user
    return path if package_folder in path else [*path, package_folder]


def start(command: Sequence[str], *, errors: bool = False, folder: Path | None = None) -> Child:
    """Start a process in `folder`, with pipes to and from it; from its errors if asked.

    Ctrl-C in a terminal does not reach it: you end it with `kill`.
    """
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if errors else subprocess.DEVNULL,
        start_new_session=True,
    )


def run(
    command: Sequence[str], *, seconds: float | None = None, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command in `folder` to its end, and return what it printed.

    Raises:
        ChildError: it did not end within `seconds`.
    """
    return subprocess.run(
        command,
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
        start_new_session=True,
    )


def _working_folder() -> str:
    with suppress(OSError):  # it was removed
        return os.getcwd()
    return ""


def _relative(name: str) -> list[str]:
    entries = os.environ[name].split(os.pathsep) if os.environ.get(name) else []
    return [entry for entry in entries if not os.path.isabs(entry)]


def _absolute(value: str) -> str:
    return os.pathsep.join(entry for entry in value.split(os.pathsep) if os.path.isabs(entry))
