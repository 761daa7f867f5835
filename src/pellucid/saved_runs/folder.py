"""The folder of a run: its files, its name, its lock.

    config.toml  plan.json  tokenizer.json  chat_template.jinja  metrics.jsonl  teacher.json
    data-files.json  replans.jsonl
    text/  start/  checkpoints/  films/  non-finite/

This module knows the names of the files, not their content.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import filelock

from pellucid import disk
from pellucid.checkpoints import FILES, Shelf
from pellucid.checkpoints.huggingface import is_huggingface
from pellucid.config import did_you_mean
from pellucid.data import DATA_FILES
from pellucid.errors import PellucidError, RunError
from pellucid.json_text import json_text
from pellucid.reader import read_json_table
from pellucid.tokenizers import SETTINGS

_CONFIG = "config.toml"
_LOCK = ".lock"
_OWNER = ".lock-owner.json"
#: The files of the lock.
LOCK_FILES = (_LOCK, _OWNER)
#: Files at fixed places of a run's folder.
_FILES = (
    _CONFIG,
    "plan.json",
    "replans.jsonl",
    "data-files.json",
    "tokenizer.json",
    SETTINGS,
    "chat_template.jinja",
    "teacher.json",
    "vitals.json",
    "metrics.jsonl",
    "checkpoints/latest",
    "checkpoints/best",
    "checkpoints/run-id",
)
#: All files of a run's folder before its first update.
PREPARED = (
    *_FILES,
    *(f"text/{name}" for name in DATA_FILES),
    *(f"start/{name}" for name in FILES),
    *(f"checkpoints/step-*/{name}" for name in (*FILES, "*.rank-*.safetensors")),
)


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The places in a run's folder, which is `path`."""

    path: Path

    @property
    def config(self) -> Path:
        """The whole config."""
        return self.path / _CONFIG

    @property
    def plan(self) -> Path:
        """The plan: the choices for this machine."""
        return self.path / "plan.json"

    @property
    def replans(self) -> Path:
        """The new lengths of a run by minutes, one a line."""
        return self.path / "replans.jsonl"

    @property
    def data_files(self) -> Path:
        """The names and hashes of the files that the data came from."""
        return self.path / "data-files.json"

    @property
    def tokenizer(self) -> Path:
        """The tokenizer, in the format of the library `tokenizers`."""
        return self.path / "tokenizer.json"

    @property
    def metrics(self) -> Path:
        """One event a line."""
        return self.path / "metrics.jsonl"

    @property
    def text(self) -> Path:
        """The prepared text, or the prepared examples."""
        return self.path / "text"

    @property
    def template(self) -> Path:
        """The template of chats, if the run learns from chats."""
        return self.path / "chat_template.jinja"

    @property
    def start(self) -> Path:
        """The weights that the run started from, if they were not random."""
        return self.path / "start"

    @property
    def teacher(self) -> Path:
        """The weights of the run's teacher, if it has one."""
        return self.path / "teacher.json"

    @property
    def shelf(self) -> Shelf:
        """The checkpoints."""
        return Shelf(self.path / "checkpoints")

    @property
    def films(self) -> Path:
        """The films: records of the inside of sentences during training."""
        return self.path / "films"

    @property
    def non_finite(self) -> Path:
        """The states of updates with a value that is not finite."""
        return self.path / "non-finite"

    @contextmanager
    def locked(self) -> Generator[None]:
        """Hold the folder while it is written to.

        The operating system holds the lock and releases it when the process ends, so the lock file
        of a killed run does not block the next one. On a file system without locks the file itself
        is the lock; then delete `.lock` by hand once its process is gone.

        Raises:
            RunError: another process holds it; the message names it.
        """
        # wait a moment: `is_held` may hold the lock for an instant
        lock = filelock.FileLock(self.path / _LOCK, timeout=1)
        owner = self.path / _OWNER
        try:
            lock.acquire()
        except filelock.Timeout:
            raise RunError(
                f"{self.path} is in use{_owner(owner)}: wait for it, stop it, or look at it with "
                f"pellucid attach {self.path}"
            ) from None
        try:
            facts = {"pid": os.getpid(), "host": socket.gethostname(), "since": _timestamp()}
            with suppress(OSError):  # it only makes the refusal of others more helpful
                owner.write_text(json_text(facts), encoding="utf-8")
            yield
        finally:
            disk.remove_file(owner)
            lock.release()

    def is_held(self) -> bool:
        """Whether another process holds the folder now."""
        try:
            with filelock.FileLock(self.path / _LOCK, blocking=False):
                return False
        except filelock.Timeout:
            return True


@contextmanager
def preparing(
    target: Path | None = None, *, name: str = "", parent: Path = Path("runs")
) -> Generator[tuple[RunFolder, RunFolder]]:
    """A run's folder, and the unfinished folder in which to prepare the run.

    At the end the unfinished folder gets the run's name. An error removes its files, and no others.
    After a killed process the preparation starts again, but continues its encoded text.

    Args:
        target: the run's folder; a new one by default, `runs/NAME-DATE-TIME`.
        name: the first part of a new folder's name.
        parent: the parent of a new folder.

    Raises:
        RunError: `target` is taken, cannot be made, or another process prepares it.
    """
    target, partial = _fresh(name, parent) if target is None else (target, _claimed(target))
    try:
        yield RunFolder(target), RunFolder(partial.path)
        refuse_taken(target)
        partial.place(last=_CONFIG)
    except BaseException:
        partial.remove()
        raise


def _claimed(target: Path) -> disk.Partial:
    refuse_taken(target)
    try:
        return _partial(target)
    except disk.FolderInUse:
        raise RunError(
            f"{target} is in use: another process prepares a run in it; wait for it, stop it, or "
            "name another folder"
        ) from None
    except OSError as error:
        raise RunError(_unmakeable(target, error)) from None


def _unmakeable(target: Path, error: OSError) -> str:
    return (
        f"{target} cannot be made: {error.strerror}; make room on the disk, or name another folder"
    )


def _fresh(name: str, parent: Path) -> tuple[Path, disk.Partial]:
    """An unused path, and the folder that claims it, so that two runs never get the same one."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for number in range(1, 10_000):
        target = parent / f"{name}-{stamp}{'' if number == 1 else f'-{number}'}"
        if os.path.lexists(target):
            continue
        try:
            return target, _partial(target)
        except disk.FolderInUse:
            continue
        except OSError as error:
            raise RunError(_unmakeable(target, error)) from None
    raise RunError(f"{parent} holds ten thousand runs of this second: name one with --out")


def _partial(target: Path) -> disk.Partial:
    return disk.Partial(target, PREPARED, keep=(f"text{disk.PARTIAL}",), exclusive=True)


def refuse_taken(path: Path) -> None:
    """Refuse a path that is taken, unless by our own unfinished work.

    Raises:
        RunError: if it is a run, says how to continue it.
    """
    if disk.is_free(path):
        return
    is_run = path.is_dir() and (path / _CONFIG).exists()
    resume_advice = f"continue it (pellucid train --resume {path}) or " if is_run else ""
    raise RunError(
        f"{path} is there already and is not empty: pellucid does not overwrite it; "
        f"{resume_advice}name another folder"
    )


def existing_folder(path: Path) -> tuple[RunFolder, Path | None]:
    """The run at `path`, and the checkpoint if `path` names one of its checkpoints.

    Raises:
        RunError: there is no run, or one of its files is a folder.
    """
    for folder, checkpoint in ((path, None), (path.parent.parent, path)):
        if (folder / _CONFIG).is_file():
            for file in (folder / name for name in (*_FILES, _LOCK)):
                if file.is_dir():
                    raise RunError(f"{file} is a folder: a run has a file there; move it away")
            return RunFolder(folder), checkpoint
    if is_published(path):
        raise RunError(
            f"{path} is a published model and not a run: it has no training to continue, watch or "
            f"report; use the model in place, or make a run of it with pellucid import {path} RUN"
        )
    problem = "is not a run" if path.exists() else "does not exist"
    names = sorted(file.parent.name for file in path.parent.glob(f"*/{_CONFIG}"))
    hint = f"`pellucid train` prints its name{did_you_mean(path.name, names)}"
    raise RunError(f"{path} {problem}: a run's folder holds config.toml, and {hint}")


def home_of(path: Path) -> Path:
    """The folder of a run, of a checkpoint's run, or of a published model.

    Raises:
        RunError: there is none of them.
    """
    return path if is_published(path) else existing_folder(path)[0].path


def is_published(path: Path) -> bool:
    """Whether `path` is the folder of a published model, and not of a run."""
    return is_huggingface(path) and not (path / _CONFIG).exists()


def _owner(file: Path) -> str:
    try:
        facts = read_json_table(file)
        return f" by process {facts['pid']} on {facts['host']} since {facts['since']}"
    except (KeyError, PellucidError):
        return ""


def _timestamp() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")
