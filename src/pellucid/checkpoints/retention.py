"""The folder of a run's checkpoints: saves them, marks the latest and the best, removes old ones.

    checkpoints/step-100/  checkpoints/step-200/  checkpoints/latest  checkpoints/best
    checkpoints/run-id

`latest` and `best` are text files with the name of a folder. The manifest of each checkpoint has
the `run-id` of the run that saved it. pellucid only removes this run's own checkpoints, and only
the files that their manifests list.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pellucid import disk
from pellucid.checkpoints.atomic import write_text
from pellucid.checkpoints.files import FILES, MANIFEST, Checkpoint, own_files, save, verify
from pellucid.errors import CheckpointError
from pellucid.reader import read_bytes, read_text

_log = logging.getLogger(__name__)
T = TypeVar("T")

#: The most bytes of `latest`, `best` and `run-id`, which have a name each.
_MARK = 2**12
_STEP = re.compile(r"step-(0|[1-9][0-9]{0,17})")


class Shelf:
    """The checkpoints under one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def steps(self) -> list[int]:
        """The steps of all finished checkpoints, in order."""
        if not self.folder.is_dir():
            return []
        paths = (path for path in self.folder.iterdir() if self._is_inside(path))
        folders = (path for path in paths if (path / MANIFEST).is_file())
        matches = (_STEP.fullmatch(path.name) for path in folders)
        return sorted(int(match[1]) for match in matches if match)

    def had_checkpoint(self) -> bool:
        """Whether a checkpoint was ever finished here, even if it is missing or damaged now."""
        return bool(self.steps()) or _read_mark(self.folder / "latest") is not None

    def _is_inside(self, path: Path) -> bool:
        """Whether a path is really in this folder, not a link to another place."""
        return os.path.dirname(os.path.realpath(path)) == os.path.realpath(self.folder)

    def path(self, step: int) -> Path:
        """The folder of the checkpoint of `step`."""
        return self.folder / f"step-{step}"

    def save(self, step: int, checkpoint: Checkpoint, *, best: bool, keep: int) -> Path:
        """Save a checkpoint, mark it, and remove old ones; returns its folder.

        Args:
            step: its number of updates.
            checkpoint: its content.
            best: whether it has the best held-out loss so far.
            keep: how many of the newest checkpoints stay, besides the best.
        """
        path, run_id = self.path(step), self._run_id()
        occupied = path.is_file() or any((path / name).exists() for name in FILES)
        if (occupied or path.is_symlink()) and own_files(path, run_id) is None:
            _log.warning("%s is not from this run: renamed to %s", path, disk.set_aside(path))
        save(path, checkpoint, run_id=run_id, replace=True)
        if best:
            write_text(self.folder / "best", path.name + "\n")
        write_text(self.folder / "latest", path.name + "\n")
        self._tidy(keep)
        return path

    def is_best(self, path: Path) -> bool:
        """Whether `path` is the checkpoint with the best held-out loss so far."""
        return _read_mark(self.folder / "best") == path.name

    def rewind(self, path: Path) -> None:
        """Mark `path` as the latest: a run continues from it and overwrites later ones."""
        write_text(self.folder / "latest", path.name + "\n")

    def latest(self) -> Path:
        """The newest checkpoint, verified.

        Raises:
            CheckpointError: there is none, or it is damaged; names the newest intact one.
        """
        return self._marked("latest")

    def best(self) -> Path:
        """The checkpoint with the best held-out loss, or the latest if none was evaluated."""
        return self._marked("best" if (self.folder / "best").is_file() else "latest")

    def newest_whole(self, opened: Callable[[Path], T]) -> tuple[Path, T, list[tuple[Path, str]]]:
        """The newest checkpoint up to the latest that opens: its path and content.

        Also the newer, damaged ones, each with its error. `opened` is called with a path.

        Raises:
            CheckpointError: none is intact, or `latest` names no checkpoint of this folder.
        """
        latest = self._resolve_mark("latest")
        older = [self.path(step) for step in self.steps() if step < _step_of(latest)]
        damaged: list[tuple[Path, str]] = []
        for path in (latest, *reversed(older)):
            try:
                return path, opened(path), damaged
            except CheckpointError as error:
                damaged.append((path, str(error)))
        raise CheckpointError(f"{damaged[0][1]}; no other checkpoint is intact")

    def _resolve_mark(self, mark: str) -> Path:
        """The checkpoint that `latest` or `best` names; the newest if there is no such file.

        Raises:
            CheckpointError: there is none, or the mark names no checkpoint of this folder.
        """
        name = _read_mark(self.folder / mark)
        if name is None:
            steps = self.steps()
            if not steps:
                raise CheckpointError(
                    f"{self.folder} has no checkpoint: the run stopped before its first one"
                )
            return self.path(steps[-1])
        path = self.folder / name
        if _STEP.fullmatch(name) is None or not self._is_inside(path):
            raise CheckpointError(
                f"{self.folder / mark} names {name[:80]!r}, which is not a checkpoint of this run: "
                "write the name of a folder next to it, such as step-100, or delete it to use the "
                "newest"
            )
        return path

    def _marked(self, mark: str) -> Path:
        path = self._resolve_mark(mark)
        try:
            verify(path)
        except CheckpointError as error:
            intact = self._newest_intact()
            advice = "no other checkpoint is intact" if intact is None else f"use {intact} instead"
            raise CheckpointError(f"{error}; {advice}") from None
        return path

    def _newest_intact(self) -> Path | None:
        for step in reversed(self.steps()):
            try:
                verify(self.path(step))
            except CheckpointError:
                continue
            return self.path(step)
        return None

    def _run_id(self) -> str:
        """The id of this run, which is drawn when the first checkpoint is saved."""
        file = self.folder / "run-id"
        if not file.is_file():
            write_text(file, secrets.token_hex(8) + "\n")
        return read_text(file, limit=_MARK, refusal=CheckpointError).strip()

    def _tidy(self, keep: int) -> None:
        run_id = self._run_id()
        files_by_step = {step: own_files(self.path(step), run_id) for step in self.steps()}
        owned = {step: files for step, files in files_by_step.items() if files is not None}
        spared = {self.path(step).name for step in list(owned)[-keep:]}
        spared |= {_read_mark(self.folder / mark) or "" for mark in ("latest", "best")}
        for step, files in owned.items():
            if self.path(step).name not in spared:
                _log.debug("removing %s", self.path(step))
                disk.remove(self.path(step), files)
        disk.sweep(self.folder)


def _step_of(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


def _read_mark(file: Path) -> str | None:
    """The name in `latest` or `best`; None if the file is missing or a crash emptied it."""
    if not file.exists():
        return None
    content = read_bytes(file, limit=_MARK, refusal=CheckpointError)
    return content.decode("utf-8", "replace").strip().strip("\0") or None
