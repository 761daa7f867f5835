"""A cache of prepared text, so that several runs encode the same text only once.

pellucid writes an entry under a temporary name, renames it at the end and compares its checksums
before use. So it never uses an unfinished or damaged entry.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from pellucid.data.manifest import TEXT_FILES
from pellucid.data.store import PreparedData, open_prepared
from pellucid.disk import PARTIAL, Partial, new_folder, remove, remove_file, sweep
from pellucid.errors import TextError
from pellucid.reader import read_text
from pellucid.tokenizers.special_tokens import SETTINGS
from pellucid.tokenizers.tokenizer import Tokenizer

_TOKENIZER = "tokenizer.json"
_TRAINED_ON = "trained-on.txt"
_TEXT = "text"
#: All files of an entry, finished or not.
_FILES = (
    _TOKENIZER,
    SETTINGS,
    _TRAINED_ON,
    *(f"{folder}/{name}" for folder in (_TEXT, f"{_TEXT}{PARTIAL}") for name in TEXT_FILES),
)
#: An unfinished entry is removed if no process continues it for so many seconds.
_STALE = 24 * 3600


def load_tokenizer(entry: Path) -> Tokenizer | None:
    """The tokenizer of an entry whose checksums match; None if the entry does not exist.

    Raises:
        TextError: there is an entry, but it is damaged.
    """
    if not os.path.exists(entry):  # or the cache is not readable
        return None
    open_prepared(entry / "text", verify=True)
    return Tokenizer.load(entry / _TOKENIZER)


def take(entry: Path, folder: Path) -> PreparedData:
    """Link or copy the prepared text of an entry into `folder`."""
    return link_prepared(entry / _TEXT, folder)


def link_prepared(source: Path, folder: Path) -> PreparedData:
    """Link or copy prepared text into `folder`.

    Args:
        source: a folder with prepared text.
        folder: the new folder.
    """
    with new_folder(folder, TEXT_FILES) as partial:
        _link(source, partial)
    return open_prepared(folder)


class Workshop:
    """A folder of the cache in which one process builds an entry.

    If the process is killed, the next one continues its work.

    Raises:
        FolderInUse: another process has it.
        OSError: the cache cannot be written.
    """

    def __init__(self, entry: Path) -> None:
        # not `_TEXT`: the process was killed before `finish`, so this text may be incomplete
        keep = (_TOKENIZER, SETTINGS, _TRAINED_ON, f"{_TEXT}{PARTIAL}")
        self._partial = Partial(entry, _FILES, keep=keep, exclusive=True)
        self.entry = self._partial.path
        sweep(entry.parent, older_than=_STALE)

    @property
    def text(self) -> Path:
        """The folder for the prepared text."""
        return self.entry / _TEXT

    def tokenizer(self, sha256: str) -> Tokenizer | None:
        """The tokenizer that an earlier process trained here on the text with this hash."""
        with suppress(OSError, ValueError, TextError):
            if read_text(self.entry / _TRAINED_ON, refusal=TextError) == sha256:
                return Tokenizer.load(self.entry / _TOKENIZER)
        return None

    def keep_tokenizer(self, tokenizer: Tokenizer, sha256: str) -> None:
        """Save a tokenizer that was trained on the text with this hash."""
        remove_file(self.entry / _TRAINED_ON)
        tokenizer.save(self.entry / _TOKENIZER)
        (self.entry / _TRAINED_ON).write_text(sha256, encoding="utf-8")

    def finish(self) -> Path:
        """Publish the finished entry and return its folder; an existing entry stays."""
        target = self._partial.target
        if not target.exists():
            remove_file(self.entry / _TRAINED_ON)
            self._partial.place()
        return target

    def clear(self) -> None:
        """Remove the folder."""
        self._partial.remove()


def drop(entry: Path) -> None:
    """Remove a damaged entry.

    Raises:
        TextError: it cannot be removed.
    """
    remove(entry, _FILES)
    if os.path.lexists(entry):
        raise TextError(
            f"the cached text in {entry} is damaged and cannot be removed: remove it, or "
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
