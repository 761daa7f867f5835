"""Prepared text kept between runs, so that the same text is encoded once.

Comes in: a key that stands for everything the result depends on, and finished folders. Goes out:
the same files, hard-linked where the disk allows it and copied elsewhere. It does not know what the
key was made of.

An entry is written beside its place and renamed at the end, and its checksums are compared when it
is taken: what was interrupted or damaged is never taken for whole.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from pellucid.errors import TextError
from pellucid.text.shards import PreparedText, open_prepared
from pellucid.text.tokenizers import Tokenizer

_TOKENIZER = "tokenizer.json"


def cache_folder() -> Path | None:
    """Where prepared text is kept: `PELLUCID_CACHE`, or the platform's place.

    None for "off", and for a user without a home folder.
    """
    chosen = os.environ.get("PELLUCID_CACHE")
    if chosen:
        return None if chosen == "off" else Path(chosen) / "text"
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "darwin":
        place = home / "Library" / "Caches"
    elif sys.platform == "win32":
        place = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    else:
        place = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return place / "pellucid" / "text"


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


def keep(entry: Path, folder: Path, tokenizer: Tokenizer) -> None:
    """Keep the prepared text in `folder` as `entry`; one that is there already stays.

    Raises:
        OSError: the cache cannot be written.
    """
    entry.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="partial-", dir=entry.parent) as scratch:
        whole = Path(scratch) / "entry"
        _link(folder, whole / "text")
        tokenizer.save(whole / _TOKENIZER)
        if not entry.exists():
            os.replace(whole, entry)


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
