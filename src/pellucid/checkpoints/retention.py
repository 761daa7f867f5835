"""The shelf of a run's checkpoints: which there are, which is the latest and the best, which go.

    checkpoints/step-100/  checkpoints/step-200/  checkpoints/latest  checkpoints/best

Comes in: checkpoints to keep. Goes out: their folders. `latest` and `best` are text files that
hold a folder's name. It does not know what is in a checkpoint.
"""

from __future__ import annotations

import logging
import re
import shutil
from pathlib import Path

from pellucid.checkpoints.atomic import PARTIAL, write_text
from pellucid.checkpoints.files import Checkpoint, save, verify
from pellucid.errors import CheckpointError

_log = logging.getLogger(__name__)

_STEP = re.compile(r"step-(0|[1-9][0-9]{0,17})")


class Shelf:
    """The checkpoints under one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def steps(self) -> list[int]:
        """The steps of all finished checkpoints, in order."""
        if not self.folder.is_dir():
            return []
        home = self.folder.resolve()
        inside = (path for path in self.folder.iterdir() if path.resolve().parent == home)
        matches = (_STEP.fullmatch(path.name) for path in inside)
        return sorted(int(match[1]) for match in matches if match)

    def path(self, step: int) -> Path:
        """Where the checkpoint of `step` lies."""
        return self.folder / f"step-{step}"

    def save(self, step: int, checkpoint: Checkpoint, *, best: bool, keep: int) -> Path:
        """Put a checkpoint on the shelf, mark it, and take away what need not be kept.

        The newest `keep` and the best one stay.
        """
        path = self.path(step)
        save(path, checkpoint)
        if best:
            write_text(self.folder / "best", path.name + "\n")
        write_text(self.folder / "latest", path.name + "\n")
        self._tidy(keep)
        return path

    def is_best(self, path: Path) -> bool:
        """Whether `path` is the checkpoint with the best held-out loss so far."""
        return _read_mark(self.folder / "best") == path.name

    def rewind(self, path: Path) -> None:
        """Let `path` be the latest: what a run that goes on from it will overwrite is no longer."""
        write_text(self.folder / "latest", path.name + "\n")

    def latest(self) -> Path:
        """The newest checkpoint, verified.

        Raises:
            CheckpointError: there is none, or it is damaged; the newest whole one is named.
        """
        return self._marked("latest")

    def best(self) -> Path:
        """The checkpoint with the best held-out loss, or the latest where none was evaluated."""
        return self._marked("best" if (self.folder / "best").is_file() else "latest")

    def newest_whole(self) -> tuple[Path, list[tuple[Path, str]]]:
        """The newest whole checkpoint up to the latest; the newer ones, with what is wrong.

        Raises:
            CheckpointError: none is whole, or `latest` names no checkpoint of this folder.
        """
        latest = self._named("latest")
        older = [self.path(step) for step in self.steps() if step < _step_of(latest)]
        left_out: list[tuple[Path, str]] = []
        for path in (latest, *reversed(older)):
            try:
                verify(path)
            except CheckpointError as error:
                left_out.append((path, str(error)))
            else:
                return path, left_out
        raise CheckpointError(f"{left_out[0][1]}; no other checkpoint is whole")

    def _named(self, mark: str) -> Path:
        """The checkpoint that `latest` or `best` names; without such a file the newest.

        Raises:
            CheckpointError: there is none, or what it names is no checkpoint of this folder.
        """
        name = _read_mark(self.folder / mark)
        if name is None:
            steps = self.steps()
            if not steps:
                raise CheckpointError(
                    f"{self.folder} holds no checkpoint: the run was stopped before its first one"
                )
            return self.path(steps[-1])
        path = self.folder / name
        if _STEP.fullmatch(name) is None or path.resolve().parent != self.folder.resolve():
            raise CheckpointError(
                f"{self.folder / mark} names {name[:80]!r}, which is no checkpoint of this run: "
                "write into it the name of a folder beside it, such as step-100, or delete it to "
                "take the newest"
            )
        return path

    def _marked(self, mark: str) -> Path:
        path = self._named(mark)
        try:
            verify(path)
        except CheckpointError as error:
            whole = self._newest_whole()
            way_out = "no other checkpoint is whole" if whole is None else f"use {whole} instead"
            raise CheckpointError(f"{error}; {way_out}") from None
        return path

    def _newest_whole(self) -> Path | None:
        for step in reversed(self.steps()):
            try:
                verify(self.path(step))
            except CheckpointError:
                continue
            return self.path(step)
        return None

    def _tidy(self, keep: int) -> None:
        spared = {self.path(step).name for step in self.steps()[-keep:]}
        spared |= {_read_mark(self.folder / mark) or "" for mark in ("latest", "best")}
        for path in self.folder.iterdir():
            stale = _STEP.fullmatch(path.name) and path.name not in spared
            if path.is_dir() and (stale or path.name.endswith(PARTIAL)):
                _log.debug("taking away %s", path)
                shutil.rmtree(path, ignore_errors=True)


def _step_of(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


def _read_mark(file: Path) -> str | None:
    """The name in `latest` or `best`; None where there is no such file, or a crash emptied it."""
    try:
        return file.read_bytes().decode("utf-8", "replace").strip().strip("\0") or None
    except OSError:
        return None
