"""Prepared text kept between runs, so that the same text is encoded once.

An entry comes to be beside its place and is renamed at the end, and its checksums are compared when
it is taken: what was interrupted or damaged is never taken for whole.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from pellucid.data.shards import TEXT_FILES, PreparedText, open_prepared
from pellucid.disk import PARTIAL, Partial, new_folder, remove, remove_file, sweep
from pellucid.errors import TextError
from pellucid.reader import read_text
from pellucid.tokenizers.special_tokens import SETTINGS
from pellucid.tokenizers.tokenizer import Tokenizer

_TOKENIZER = "tokenizer.json"
_TRAINED_ON = "trained-on.txt"
_TEXT = "text"
#: All that is in an entry, finished or not.
_FILES = (
    _TOKENIZER,
    SETTINGS,
    _TRAINED_ON,
    *(f"{folder}/{name}" for folder in (_TEXT, f"{_TEXT}{PARTIAL}") for name in TEXT_FILES),
)
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
    with new_folder(folder, TEXT_FILES) as partial:
        _link(entry / _TEXT, partial)
    return open_prepared(folder)


class Workshop:
    """A folder of the cache in which an entry comes to be: held by one process, and found again by
    the next one where this one does not come to an end.

    Raises:
        FolderInUse: another process has it.
        OSError: the cache cannot be written.
    """

    def __init__(self, entry: Path) -> None:
        # a text that is there is a moment too early for `finish`: nobody knows whether it is whole
        keep = (_TOKENIZER, SETTINGS, _TRAINED_ON, f"{_TEXT}{PARTIAL}")
        self._partial = Partial(entry, _FILES, keep=keep, exclusive=True)
        self.entry = self._partial.path
        sweep(entry.parent, older_than=_STALE)

    @property
    def text(self) -> Path:
        """Where the prepared text goes."""
        return self.entry / _TEXT

    def tokenizer(self, sha256: str) -> Tokenizer | None:
        """The tokenizer that was trained here before on the text with that hash."""
        with suppress(OSError, ValueError, TextError):
            if read_text(self.entry / _TRAINED_ON, refusal=TextError) == sha256:
                return Tokenizer.load(self.entry / _TOKENIZER)
        return None

    def keep_tokenizer(self, tokenizer: Tokenizer, sha256: str) -> None:
        """Keep a tokenizer that was trained on the text with that hash."""
        remove_file(self.entry / _TRAINED_ON)
        tokenizer.save(self.entry / _TOKENIZER)
        (self.entry / _TRAINED_ON).write_text(sha256, encoding="utf-8")

    def finish(self) -> Path:
        """Make the entry of what is finished, and say where; one that is there already stays."""
        target = self._partial.target
        if not target.exists():
            remove_file(self.entry / _TRAINED_ON)
            self._partial.place()
        return target

    def leave(self) -> None:
        """Clear all away."""
        self._partial.remove()


def drop(entry: Path) -> None:
    """Take a damaged entry away.

    Raises:
        TextError: it cannot be taken away.
    """
    remove(entry, _FILES)
    if os.path.lexists(entry):
        raise TextError(
            f"the prepared text kept in {entry} is damaged and cannot be removed: remove it, or "
            "set PELLUCID_CACHE to another folder, or to off"
        )


def _link(source: Path, target: Path) -> None:
    for name in TEXT_FILES:
        file = source / name
        if not file.is_file():
            continue
        try:
            os.link(file, target / name)
        except OSError:  # another disk, or a file system without hard links
            shutil.copyfile(file, target / name)
