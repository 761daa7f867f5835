"""The shelf of a run's checkpoints: which there are, which is the latest and the best, which go.

    checkpoints/step-100/  checkpoints/step-200/  checkpoints/latest  checkpoints/best
    checkpoints/run-id

Comes in: checkpoints to keep. Goes out: their folders. `latest` and `best` are text files that
hold a folder's name. `run-id` is in the manifest of each checkpoint that this run saved: only those
are ever removed, and only the files that their manifests list. It does not know what is in a
checkpoint.
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

#: Bytes of `latest`, `best` and `run-id`: a name each.
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
        inside = (path for path in self.folder.iterdir() if self._is_inside(path))
        folders = (path for path in inside if (path / MANIFEST).is_file())
        matches = (_STEP.fullmatch(path.name) for path in folders)
        return sorted(int(match[1]) for match in matches if match)

    def had_one(self) -> bool:
        """Whether a checkpoint was ever finished here, though it may be gone or damaged by now."""
        return bool(self.steps()) or _read_mark(self.folder / "latest") is not None

    def _is_inside(self, path: Path) -> bool:
        """Whether it is here itself: no link to elsewhere, nor one to itself."""
        return os.path.dirname(os.path.realpath(path)) == os.path.realpath(self.folder)

    def path(self, step: int) -> Path:
        """Where the checkpoint of `step` lies."""
        return self.folder / f"step-{step}"

    def save(self, step: int, checkpoint: Checkpoint, *, best: bool, keep: int) -> Path:
        """Put a checkpoint on the shelf, mark it, and take away what need not be kept.

        The newest `keep` and the best one stay.
        """
        path, run_id = self.path(step), self._run_id()
        occupied = path.is_file() or any((path / name).exists() for name in FILES)
        if (occupied or path.is_symlink()) and own_files(path, run_id) is None:
            _log.warning("%s is not this run's own: set aside as %s", path, disk.set_aside(path))
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

    def newest_whole(self, opened: Callable[[Path], T]) -> tuple[Path, T, list[tuple[Path, str]]]:
        """The newest checkpoint up to the latest that can be opened, and what `opened` makes of it;
        the newer ones, with what is wrong.

        Raises:
            CheckpointError: none is whole, or `latest` names no checkpoint of this folder.
        """
        latest = self._named("latest")
        older = [self.path(step) for step in self.steps() if step < _step_of(latest)]
        left_out: list[tuple[Path, str]] = []
        for path in (latest, *reversed(older)):
            try:
                return path, opened(path), left_out
            except CheckpointError as error:
                left_out.append((path, str(error)))
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
        if _STEP.fullmatch(name) is None or not self._is_inside(path):
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

    def _run_id(self) -> str:
        """What the checkpoints of this run are known by; drawn when the first one is saved."""
        file = self.folder / "run-id"
        if not file.is_file():
            write_text(file, secrets.token_hex(8) + "\n")
        return read_text(file, limit=_MARK, refusal=CheckpointError).strip()

    def _tidy(self, keep: int) -> None:
        run_id = self._run_id()
        listed = {step: own_files(self.path(step), run_id) for step in self.steps()}
        owned = {step: files for step, files in listed.items() if files is not None}
        spared = {self.path(step).name for step in list(owned)[-keep:]}
        spared |= {_read_mark(self.folder / mark) or "" for mark in ("latest", "best")}
        for step, files in owned.items():
            if self.path(step).name not in spared:
                _log.debug("taking away %s", self.path(step))
                disk.remove(self.path(step), files)
        disk.sweep(self.folder)


def _step_of(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


def _read_mark(file: Path) -> str | None:
    """The name in `latest` or `best`; None where there is no such file, or a crash emptied it."""
    if not file.exists():
        return None
    content = read_bytes(file, limit=_MARK, refusal=CheckpointError)
    return content.decode("utf-8", "replace").strip().strip("\0") or None
