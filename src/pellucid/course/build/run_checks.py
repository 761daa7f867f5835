"""Run as a process of its own: the checks of a reader's files, one line of JSON for each file."""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path
from typing import Any

from pellucid.course.build.checks import CHECKS, Different
from pellucid.course.build.track import STEPS
from pellucid.json_text import json_text

_LONGEST = 300


def main(folder: str) -> None:
    """Check every file of the folder, and print a line for each."""
    output, sys.stdout = sys.stdout, sys.stderr  # the reader's own prints go elsewhere
    sys.path.insert(0, folder)
    for step in STEPS:
        is_right, message = _check(Path(folder) / step.file)
        row = {"file": step.file, "passed": is_right, "message": message}
        print(json_text(row), file=output, flush=True)


def _check(file: Path) -> tuple[bool, str]:
    if not file.is_file():
        return False, "is missing: pellucid learn build writes it"
    try:
        CHECKS[file.stem](importlib.import_module(file.stem))
    except NotImplementedError as gap:
        place = "" if _is_in(file, gap) else f"a gap in {_last_file(gap)}: "
        return False, f"to do: {place}{gap}"
    except Different as difference:
        return False, str(difference)
    except BaseException as error:
        lines = [
            part.lineno
            for part in traceback.extract_tb(error.__traceback__)
            if part.filename == str(file)
        ]
        place = f" in line {lines[-1]}" if lines else ""
        return False, f"stopped{place}: {type(error).__name__}: {error}"[:_LONGEST]
    return True, "passes"


def _is_in(file: Path, error: BaseException) -> bool:
    return _last_file(error) == file.name


def _last_file(error: BaseException) -> str:
    frames: list[Any] = list(traceback.extract_tb(error.__traceback__))
    return Path(frames[-1].filename).name
