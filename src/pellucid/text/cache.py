"""Prepared text kept between runs, so that the same text is encoded once.

Comes in: a key that stands for everything the result depends on, and finished folders. Goes out:
the same files, hard-linked where the disk allows it and copied elsewhere. It does not know what the
key was made of.

An entry comes to be beside its place and is renamed at the end, and its checksums are compared when
it is taken: what was interrupted or damaged is never taken for whole.
"""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

import filelock

from pellucid.errors import TextError
from pellucid.reader import read_text
from pellucid.text.shards import PreparedText, open_prepared
from pellucid.text.tokenizers import Tokenizer

_TOKENIZER = "tokenizer.json"
_TRAINED_ON = "trained-on.txt"
_PARTIAL = "partial-"
_LOCK = ".lock"
#: Seconds after which what nobody goes on with is taken away.
_STALE = 24 * 3600


def kept(entry: Path) -> Tokenizer | None:
    """The tokenizer of an entry whose every file is whole; None where there is none.

    Raises:
        TextError: there is an entry, but it is damaged.
    """
    if not os.path.exists(entry):  # also where the cache may not be looked into
        return None
    open_prepared(entry / "text", verify=True)
    return Tokenizer.load(entry / _TOKENIZER)


def take(entry: Path, folder: Path) -> PreparedText:
    """Give the prepared text of an entry to `folder`, which then needs the entry no more."""
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    _link(entry / "text", partial)
    os.replace(partial, folder)
    return open_prepared(folder)


class Workshop:
    """A folder of the cache in which an entry comes to be: held by one process, and found again by
    the next one where this one does not come to an end.

    Raises:
        OSError: the cache cannot be written.
        Timeout: another process holds it.
    """

    def __init__(self, entry: Path) -> None:
        self._goal = entry
        self._folder = entry.with_name(_PARTIAL + entry.name)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._lock = filelock.FileLock(self._folder / _LOCK, blocking=False)
        self._lock.acquire()
        self.entry = self._folder / "entry"
        self.entry.mkdir(exist_ok=True)
        # a moment too early for `finish`: nobody knows whether it is whole
        shutil.rmtree(self.text, ignore_errors=True)
        _sweep(entry.parent, self._folder)

    @property
    def text(self) -> Path:
        """Where the prepared text goes."""
        return self.entry / "text"

    def tokenizer(self, sha256: str) -> Tokenizer | None:
        """The tokenizer that was trained here before on the text with that hash."""
        with suppress(OSError, ValueError, TextError):
            if read_text(self._folder / _TRAINED_ON, refusal=TextError) == sha256:
                return Tokenizer.load(self.entry / _TOKENIZER)
        return None

    def keep_tokenizer(self, tokenizer: Tokenizer, sha256: str) -> None:
        """Keep a tokenizer that was trained on the text with that hash."""
        (self._folder / _TRAINED_ON).unlink(missing_ok=True)
        tokenizer.save(self.entry / _TOKENIZER)
        (self._folder / _TRAINED_ON).write_text(sha256, encoding="utf-8")

    def finish(self) -> Path:
        """Make the entry of what is finished, and say where; one that is there already stays."""
        if not self._goal.exists():
            os.replace(self.entry, self._goal)
        return self._goal

    def leave(self) -> None:
        """Clear all away."""
        self._lock.release()
        shutil.rmtree(self._folder, ignore_errors=True)


def _sweep(place: Path, mine: Path) -> None:
    """Take away what was left unfinished more than a day ago and is in no process's hands."""
    for folder in place.glob(_PARTIAL + "*"):
        if folder == mine:
            continue
        with suppress(OSError, filelock.Timeout):
            newest = max(each.stat().st_mtime for each in (folder, *folder.rglob("*")))
            if newest > time.time() - _STALE:
                continue
            with filelock.FileLock(folder / _LOCK, blocking=False):
                pass
            shutil.rmtree(folder, ignore_errors=True)


def drop(entry: Path) -> None:
    """Take a damaged entry away.

    Raises:
        TextError: it cannot be taken away.
    """
    try:
        shutil.rmtree(entry)
    except OSError as error:
        raise TextError(
            f"the prepared text kept in {entry} is damaged and cannot be removed "
            f"({error.strerror}): remove it, or set PELLUCID_CACHE to another folder, or to off"
        ) from None


def _link(source: Path, target: Path) -> None:
    target.mkdir(parents=True)
    for file in source.iterdir():
        try:
            os.link(file, target / file.name)
        except OSError:  # another disk, or a file system without hard links
            shutil.copyfile(file, target / file.name)
