"""A file from the network, whole or not at all.

Comes in: an address, a place, and what is known of the file. Goes out: the file under its name, its
size and SHA-256 compared. It does not know which files there are, nor who watches.

What has come lies in a folder `NAME.partial` until it is whole; in it, `version` keeps what the
server called this version of the file, so that a later call goes on where this one stopped and
never joins two versions.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid.datasets.server import Answer, ask
from pellucid.disk import Held, Partial, move, remove_file, write_text
from pellucid.errors import PellucidError, TextError
from pellucid.reader import read_text

#: Called with the bytes that are there, and how many there will be, where that is known.
Progress = Callable[[int, int | None], None]

_BLOCK = 2**18
_CONTENT, _VERSION = _FILES = ("content", "version")
_AGAIN = "the same command goes on from there"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A whole file. `checked` says against whose checksum: "published", "server", "earlier"
    (that of an earlier download), or None where nobody gives one. `was_there`: nothing was loaded.
    """

    path: Path
    n_bytes: int
    sha256: str
    checked: str | None
    was_there: bool = False


def whole(target: Path, *, n_bytes: int | None, sha256: str | None) -> Fetched | None:
    """The file at `target` where it is there and is the right one; None where there is none.

    Raises:
        TextError: there is another file under that name, or one that nothing tells apart.
    """
    if not target.exists():
        return None
    if not target.is_file():
        raise TextError(f"{target} is there and is no file: choose another folder with --to")
    aside = "move it away, or choose another folder with --to"
    size, actual = target.stat().st_size, _hash_of(target).hexdigest()
    expected, checked = (sha256, "published") if sha256 else (_earlier(target), "earlier")
    if expected is None and n_bytes is None:
        raise TextError(f"{target} is there, and nothing is known to check it by: {aside}")
    if (n_bytes is not None and size != n_bytes) or (expected is not None and actual != expected):
        raise TextError(
            f"{target} is there and is another file: it has {size:,} bytes and SHA-256 {actual}, "
            f"expected {_or_unknown(n_bytes)} and {expected or 'any'}; {aside}"
        )
    by = None if expected is None else checked
    return Fetched(path=target, n_bytes=size, sha256=actual, checked=by, was_there=True)


def fetch(
    address: str,
    target: Path,
    *,
    n_bytes: int | None = None,
    sha256: str | None = None,
    progress: Progress = lambda done, total: None,
) -> Fetched:
    """Bring the file at `address` to `target`; go on where an earlier call was cut off.

    Where no SHA-256 is known, the server's is taken if it gives one, and the one that was counted
    is written beside the file, as `sha256sum` writes it.

    Raises:
        TextError: the server does not give it, gives another file, or stops halfway; or the disk is
            full. Under the name `target` nothing is left that is not whole.
    """
    existing = whole(target, n_bytes=n_bytes, sha256=sha256)
    if existing is not None:
        return existing
    with _disk(target), _unfinished(target) as folder:
        return _Download(address, target, folder, n_bytes, sha256).run(progress)


class _Download:
    def __init__(
        self, address: str, target: Path, folder: Path, n_bytes: int | None, sha256: str | None
    ) -> None:
        self.address, self.target = address, target
        self.n_bytes, self.sha256 = n_bytes, sha256
        self.partial, self.version = folder / _CONTENT, folder / _VERSION

    def run(self, progress: Progress) -> Fetched:
        with self._answer() as answer:
            total, expected = self._agreed(answer)
            digest = self._receive(answer, total, progress)
        size = self.partial.stat().st_size
        if total is not None and size < total:
            raise TextError(
                f"the connection broke after {size:,} of {total:,} bytes of {self.address}; what "
                f"has come is kept: {_AGAIN}"
            )
        if size == 0:
            raise TextError(f"{self.address} is empty: try again later, or another --from")
        actual = digest.hexdigest()
        if (total is not None and size != total) or (expected is not None and actual != expected):
            self._drop()
            raise TextError(
                f"what came from {self.address} is another file: {size:,} bytes with SHA-256 "
                f"{actual}, expected {_or_unknown(total)} and {expected or 'any'}; it was removed: "
                "try again, or take it from elsewhere with --from"
            )
        self._place(actual)
        checked = "published" if self.sha256 else "server" if expected else None
        return Fetched(path=self.target, n_bytes=size, sha256=actual, checked=checked)

    def _place(self, sha256: str) -> None:
        """Give the file its name, and write its hash beside it where nobody has published one."""
        if self.sha256 is None:
            beside, line = _beside(self.target), f"{sha256}  {self.target.name}\n"
            if os.path.lexists(beside) and _earlier(self.target) != sha256:
                raise TextError(
                    f"{beside} is there already, and says another SHA-256 than the {sha256} that "
                    f"came: move it away; what has come is kept: {_AGAIN}"
                )
            if not os.path.lexists(beside):
                write_text(beside, line)
        if os.path.lexists(self.target):
            raise TextError(
                f"{self.target} came to be while it was downloaded, and is not overwritten: move "
                f"it away; what has come is kept: {_AGAIN}"
            )
        move(self.partial, self.target)

    @contextmanager
    def _answer(self) -> Generator[Answer]:
        """What the server says to the request for what is still missing."""
        have, version = self._read_partial()
        with ask(self.address, start=have, version=version) as answer:
            if answer.goes_on(have, version):
                yield answer
                return
        self._drop()
        with ask(self.address, start=0, version=None) as answer:
            if answer.start:
                raise TextError(
                    f"{self.address} gave its end when asked for all: try another --from"
                )
            yield answer

    def _read_partial(self) -> tuple[int, str | None]:
        """How many bytes of which version are here; without a version none can be gone on with."""
        try:
            version = read_text(self.version).strip()
            return (self.partial.stat().st_size, version) if version else (0, None)
        except (FileNotFoundError, PellucidError):
            return 0, None

    def _agreed(self, answer: Answer) -> tuple[int | None, str | None]:
        """Size and SHA-256 that the file will have; refuses a server that has another."""
        total = answer.total if answer.total is not None else answer.linked_size
        if total == 0:
            raise TextError(f"{self.address} is empty: try again later, or another --from")
        for named, ours, theirs in (
            ("bytes", self.n_bytes, total),
            ("bytes", total, answer.linked_size),
            ("the SHA-256", self.sha256, answer.linked_sha256),
        ):
            if ours is not None and theirs is not None and ours != theirs:
                raise TextError(
                    f"{self.address} is another file than expected: {named} {ours} expected, and "
                    f"the server says {theirs}; take it from elsewhere with --from"
                )
        total = self.n_bytes if total is None else total
        return total, self.sha256 or answer.linked_sha256

    def _receive(self, answer: Answer, total: int | None, progress: Progress) -> Any:
        """Write what comes behind what is here; gives the hash of both."""
        have = answer.start
        if total is not None:
            _refuse_full(self.target, total - have)
        digest = _hash_of(self.partial) if have else hashlib.sha256()
        if not have:
            remove_file(self.partial)
            self.version.write_text(answer.version or "", encoding="utf-8")
        with self.partial.open("ab") as file:
            progress(have, total)
            for block in answer.blocks(_BLOCK):
                file.write(block)
                digest.update(block)
                have += len(block)
                progress(have, total)
            file.flush()
            os.fsync(file.fileno())
        return digest

    def _drop(self) -> None:
        remove_file(self.partial)
        remove_file(self.version)


@contextmanager
def _unfinished(target: Path) -> Generator[Path]:
    """The folder for what has come so far; it goes where nothing came, or all is done."""
    try:
        partial = Partial(target, _FILES, keep=_FILES, alone=True)
    except Held:
        raise TextError(f"another process is downloading {target}: wait for it") from None
    try:
        yield partial.path
    finally:
        if (partial.path / _CONTENT).exists():
            partial.release()
        else:
            partial.remove()


@contextmanager
def _disk(target: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        why = "the disk is full" if error.errno == errno.ENOSPC else str(error)
        raise TextError(
            f"{target} cannot be written: {why}; make room or choose another folder with --to; "
            f"what has come is kept: {_AGAIN}"
        ) from None


def _refuse_full(target: Path, needed: int) -> None:
    free = shutil.disk_usage(target.parent).free
    if needed > free:
        raise TextError(
            f"{target} does not fit: {needed:,} bytes are still to come, and the disk has "
            f"{free:,} left; make room, or choose another folder with --to"
        )


def _hash_of(file: Path) -> Any:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256")


def _beside(target: Path) -> Path:
    return target.with_name(target.name + ".sha256")


def _earlier(target: Path) -> str | None:
    """The SHA-256 that an earlier download wrote beside the file."""
    try:
        return read_text(_beside(target)).split()[0]
    except (PellucidError, IndexError):
        return None


def _or_unknown(n_bytes: int | None) -> str:
    return "any number of bytes" if n_bytes is None else f"{n_bytes:,} bytes"
