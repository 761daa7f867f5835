"""The folder of a run: what lies where, how it is named, who holds it.

    config.toml  plan.json  tokenizer.json  chat_template.jinja  metrics.jsonl  teacher.json
    text/  start/  checkpoints/  films/  non-finite/

Comes in: a path. Goes out: paths, a lock. It does not know what is in the files.
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
from pellucid.data import DATA_FILES
from pellucid.errors import PellucidError, RunError
from pellucid.json_text import json_text
from pellucid.reader import read_json_table
from pellucid.tokenizers import SETTINGS

_CONFIG = "config.toml"
_LOCK = ".lock"
_OWNER = ".lock-owner.json"
#: All that a run's folder holds when its first update is made.
_PREPARED = (
    _CONFIG,
    "plan.json",
    "tokenizer.json",
    SETTINGS,
    "chat_template.jinja",
    "teacher.json",
    "vitals.json",
    "metrics.jsonl",
    *(f"text/{name}" for name in DATA_FILES),
    *(f"start/{name}" for name in FILES),
    *(f"checkpoints/{name}" for name in ("latest", "run-id")),
    *(f"checkpoints/step-*/{name}" for name in FILES),
)


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The places in a run's folder."""

    path: Path

    @property
    def config(self) -> Path:
        """The whole config."""
        return self.path / _CONFIG

    @property
    def plan(self) -> Path:
        """What was resolved for the machine."""
        return self.path / "plan.json"

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
        """The template that chats went through, where they did."""
        return self.path / "chat_template.jinja"

    @property
    def start(self) -> Path:
        """The weights that the run started from, where it did not draw them."""
        return self.path / "start"

    @property
    def teacher(self) -> Path:
        """Which weights the run learns from, where it has a teacher."""
        return self.path / "teacher.json"

    @property
    def shelf(self) -> Shelf:
        """The checkpoints."""
        return Shelf(self.path / "checkpoints")

    @property
    def films(self) -> Path:
        """What sentences looked like inside while the run was trained, where that was filmed."""
        return self.path / "films"

    @property
    def aside(self) -> Path:
        """Where states go that met a value that is not finite."""
        return self.path / "non-finite"

    @contextmanager
    def locked(self) -> Generator[None]:
        """Hold the folder while it is written to.

        The lock is the operating system's: it goes with its process, however that ends, so a lock
        file left behind by a killed run is not in the way. On a file system without locks it is the
        file itself; then delete `.lock` by hand once its process is gone.

        Raises:
            RunError: another process holds it; the message names it.
        """
        # a moment's patience: `is_held` may be having a look
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
            with suppress(OSError):  # a courtesy to whoever is refused; the lock does the work
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
    """A run's folder, and the one beside it in which the run is prepared and which gets its name.

    If anything stops the preparation, what was written goes, and nothing else. What a killed
    process left is begun again, and its encoded text is gone on with.

    Args:
        target: the run's folder; a fresh one by default, `runs/NAME-DATE-TIME`.
        name: what a fresh folder is called after.
        parent: where a fresh folder is made.

    Raises:
        RunError: something is at `target`, it cannot be made, or another process prepares it.
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
            f"{target} is in use by another process, which prepares a run in it: wait for it, stop "
            "it, or name another folder"
        ) from None
    except OSError as error:
        raise RunError(_unmakeable(target, error)) from None


def _unmakeable(target: Path, error: OSError) -> str:
    return (
        f"{target} cannot be made: {error.strerror}; make room on the disk, or name another folder"
    )


def _fresh(name: str, parent: Path) -> tuple[Path, disk.Partial]:
    """A place that nobody has, and the folder that claims it: two runs that start together get two.

    Raises:
        RunError: it cannot be made.
    """
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
    return disk.Partial(target, _PREPARED, keep=(f"text{disk.PARTIAL}",), exclusive=True)


def refuse_taken(path: Path) -> None:
    """Refuse a place where anything is already, but for our own unfinished work.

    Raises:
        RunError: says how to go on with it if it is a run.
    """
    if disk.is_free(path):
        return
    is_run = path.is_dir() and (path / _CONFIG).exists()
    go_on = f"go on with it (pellucid train --resume {path}) or " if is_run else ""
    raise RunError(
        f"{path} is there already and is not empty: nothing of it is overwritten; {go_on}name "
        "another folder"
    )


def existing_folder(path: Path) -> tuple[RunFolder, Path | None]:
    """The run at `path`, and the checkpoint if `path` names one of its checkpoints.

    Raises:
        RunError: there is no run.
    """
    for folder, checkpoint in ((path, None), (path.parent.parent, path)):
        if (folder / "config.toml").is_file():
            return RunFolder(folder), checkpoint
    if is_published(path):
        raise RunError(
            f"{path} is a published model and not a run: it can be used where it is, and be made a "
            f"run with pellucid import {path} RUN; there is no training that could go on, be "
            "watched or be told of"
        )
    problem = "is not a run" if path.exists() else "does not exist"
    raise RunError(
        f"{path} {problem}: a run's folder holds config.toml, and `pellucid train` prints its name"
    )


def home_of(path: Path) -> Path:
    """The folder of a run, of the run that a checkpoint is of, or of a published model.

    Raises:
        RunError: there is none of these.
    """
    return path if is_published(path) else existing_folder(path)[0].path


def is_published(path: Path) -> bool:
    """Whether `path` is the folder of a published model, and not of a run."""
    return is_huggingface(path) and not (path / "config.toml").exists()


def _owner(file: Path) -> str:
    try:
        facts = read_json_table(file)
        return f" by process {facts['pid']} on {facts['host']} since {facts['since']}"
    except (KeyError, PellucidError):
        return ""


def _timestamp() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")
