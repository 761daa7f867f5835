"""Check a track: each file in a child process, against pellucid's equations and modules."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pellucid import children
from pellucid.course.build.track import STEPS
from pellucid.errors import PellucidError
from pellucid.reader import json_lines

#: Seconds for all checks of a track.
SECONDS = 120.0
_CODE = "from pellucid.course.build.run_checks import main; main({folder!r})"


@dataclass(frozen=True, slots=True)
class Result:
    """Whether a file of the track passes, and what to do if not."""

    file: str
    passed: bool
    message: str


def check_track(folder: Path, *, seconds: float = SECONDS) -> list[Result]:
    """The result for each file of the track in a folder.

    Args:
        folder: the reader's files.
        seconds: how long all checks may take.

    Raises:
        PellucidError: the folder does not exist, or the child process failed.
    """
    if not folder.is_dir():
        raise PellucidError(
            f"{folder} is no folder: write the files first, with pellucid learn build {folder}"
        )
    code = _CODE.format(folder=str(folder.resolve()))
    child = children.start(children.python(code), errors=True)
    timed_out = False
    try:
        output, errors = child.communicate(timeout=seconds)
    except children.ChildError:
        child.kill()
        output, errors = child.communicate()
        timed_out = True
    whole_lines = output.decode(errors="replace").rpartition("\n")[0]
    rows = json_lines(whole_lines, f"the checks of {folder}")
    by_file = {row["file"]: Result(**row) for row in rows}
    if not by_file and not timed_out:
        reason = errors.decode(errors="replace").strip()[-300:] or "it printed nothing"
        raise PellucidError(f"the checks of {folder} did not run: {reason}")
    reasons = iter([f"did not end within {seconds:g} seconds"])
    unreached = "not reached: mend the file before it"
    return [
        by_file[step.file]
        if step.file in by_file
        else Result(step.file, False, next(reasons, unreached) if timed_out else unreached)
        for step in STEPS
    ]
