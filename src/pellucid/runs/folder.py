"""The folder of a run: what lies where, how it is named, who holds it.

    config.toml  plan.json  tokenizer.json  chat_template.jinja  metrics.jsonl  teacher.json
    text/  start/  checkpoints/  films/  non-finite/

Comes in: a path. Goes out: paths, a lock. It does not know what is in the files.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import filelock

from pellucid.checkpoints import PARTIAL, Shelf
from pellucid.checkpoints.huggingface import is_huggingface
from pellucid.errors import PellucidError, RunError
from pellucid.reader import read_json_table

_LOCK = ".lock"
_OWNER = ".lock-owner.json"
#: There from a run's first moment until its config is written.
_PREPARING = "run" + PARTIAL
#: What may lie beside it, and is made anew.
_UNFINISHED = (
    "text",
    "start",
    "teacher.json",
    "plan.json",
    "tokenizer.json",
    "chat_template.jinja",
    "checkpoints",
)


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The places in a run's folder."""

    path: Path

    @property
    def config(self) -> Path:
        """The whole config."""
        return self.path / "config.toml"

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

    def begin(self) -> None:
        """From here on there is a run that is not prepared yet; what a stopped one left goes."""
        (self.path / _PREPARING).touch()
        for name in _UNFINISHED:
            left = self.path / name
            if left.is_dir():
                shutil.rmtree(left)
            else:
                left.unlink(missing_ok=True)

    def prepared(self) -> None:
        """The config is written: there is a run."""
        (self.path / _PREPARING).unlink()

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
            facts = {"pid": os.getpid(), "host": socket.gethostname(), "since": _now()}
            with suppress(OSError):  # a courtesy to whoever is refused; the lock does the work
                owner.write_text(json.dumps(facts), encoding="utf-8")
            yield
        finally:
            owner.unlink(missing_ok=True)
            lock.release()

    def is_held(self) -> bool:
        """Whether another process holds the folder now."""
        try:
            with filelock.FileLock(self.path / _LOCK, blocking=False):
                return False
        except filelock.Timeout:
            return True


def new_folder(name: str, parent: Path = Path("runs")) -> RunFolder:
    """Make a fresh folder `runs/NAME-DATE-TIME`; a number is added where that is taken.

    Making the folder is what claims the name: two runs that start together get two.
    """
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for number in range(1, 10_000):
        suffix = "" if number == 1 else f"-{number}"
        path = parent / f"{name}-{stamp}{suffix}"
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise RunError(f"{path} cannot be made: {error.strerror}") from None
        return RunFolder(path)
    raise RunError(f"{parent} holds ten thousand runs of this second: name one with --out")


def chosen_folder(path: Path) -> RunFolder:
    """Make the folder that the user named.

    Raises:
        RunError: it holds something already, or cannot be made.
    """
    refuse_taken(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"{path} cannot be made: {error.strerror}") from None
    return RunFolder(path)


def refuse_taken(path: Path) -> None:
    """Refuse a place where something is already.

    What a process left that was stopped before there was a run is nothing: its prepared text, as
    far as it came, is gone on with.

    Raises:
        RunError: says how to go on with it if it is a run.
    """
    if path.exists() and (not path.is_dir() or any(map(_counts, path.iterdir()))):
        go_on = f"go on with it (pellucid train --resume {path}) or "
        is_run = path.is_dir() and (path / "config.toml").exists()
        raise RunError(
            f"{path} is there already and is not empty: nothing of it is overwritten; "
            f"{go_on if is_run else ''}name another folder"
        )


def _counts(entry: Path) -> bool:
    if entry.name in _UNFINISHED and entry.with_name(_PREPARING).exists():
        return False
    return entry.name not in (_LOCK, _OWNER) and not entry.name.endswith(PARTIAL)


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
    what = "is not a run" if path.exists() else "does not exist"
    raise RunError(
        f"{path} {what}: a run's folder holds config.toml, and `pellucid train` prints its name"
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


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")
