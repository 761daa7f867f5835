"""A file from the network, whole or not at all.

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
from pellucid.disk import FolderInUse, Partial, move, remove_file, write_text
from pellucid.errors import PellucidError, TextError
from pellucid.reader import read_text

#: Called with the bytes that are there, and how many there will be, where that is known.
Progress = Callable[[int, int | None], None]

_BLOCK = 2**18
_CONTENT, _VERSION = _FILES = ("content", "version")
_RESUME = "the same command goes on from there"


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


def find_file(target: Path, *, n_bytes: int | None, sha256: str | None) -> Fetched | None:
    """The file at `target` where it is there and is the right one; None where there is none.

    Raises:
        TextError: there is another file under that name, or one that nothing tells apart.
    """
    if not target.exists():
        return None
    if not target.is_file():
        raise TextError(f"{target} is there and is no file: choose another folder with --to")
    advice = "move it away, or choose another folder with --to"
    size, actual = target.stat().st_size, _hash_of(target).hexdigest()
    expected, checked = (sha256, "published") if sha256 else (_earlier(target), "earlier")
    if expected is None and n_bytes is None:
        raise TextError(f"{target} is there, and nothing is known to check it by: {advice}")
    if (n_bytes is not None and size != n_bytes) or (expected is not None and actual != expected):
        raise TextError(
            f"{target} is there and is another file: it has {size:,} bytes and SHA-256 {actual}, "
            f"expected {_or_unknown(n_bytes)} and {expected or 'any'}; {advice}"
        )
    checked_by = None if expected is None else checked
    return Fetched(path=target, n_bytes=size, sha256=actual, checked=checked_by, was_there=True)


def fetch(
    address: str,
    target: Path,
    *,
    n_bytes: int | None = None,
    sha256: str | None = None,
    progress: Progress = lambda n_loaded, total: None,
) -> Fetched:
    """Bring the file at `address` to `target`; go on where an earlier call was cut off.

    Where no SHA-256 is known, the server's is taken if it gives one, and the one that was counted
    is written beside the file, as `sha256sum` writes it.

    Raises:
        TextError: the server does not give it, gives another file, or stops halfway; or the disk is
            full. Under the name `target` nothing is left that is not whole.
    """
    existing = find_file(target, n_bytes=n_bytes, sha256=sha256)
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
                f"has come is kept: {_RESUME}"
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
            checksum_file, line = _checksum_file(self.target), f"{sha256}  {self.target.name}\n"
            if os.path.lexists(checksum_file) and _earlier(self.target) != sha256:
                raise TextError(
                    f"{checksum_file} is there already, and says another SHA-256 than the "
                    f"{sha256} that came: move it away; what has come is kept: {_RESUME}"
                )
            if not os.path.lexists(checksum_file):
                write_text(checksum_file, line)
        if os.path.lexists(self.target):
            raise TextError(
                f"{self.target} came to be while it was downloaded, and is not overwritten: move "
                f"it away; what has come is kept: {_RESUME}"
            )
        move(self.partial, self.target)

    @contextmanager
    def _answer(self) -> Generator[Answer]:
        """What the server says to the request for what is still missing."""
        position, version = self._read_partial()
        with ask(self.address, start=position, version=version) as answer:
            if answer.continues(position, version):
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
        for quantity, expected_value, server_value in (
            ("bytes", self.n_bytes, total),
            ("bytes", total, answer.linked_size),
            ("the SHA-256", self.sha256, answer.linked_sha256),
        ):
            if (
                expected_value is not None
                and server_value is not None
                and expected_value != server_value
            ):
                raise TextError(
                    f"{self.address} is another file than expected: {quantity} "
                    f"{expected_value} expected, and the server says {server_value}; "
                    "take it from elsewhere with --from"
                )
        total = self.n_bytes if total is None else total
        return total, self.sha256 or answer.linked_sha256

    def _receive(self, answer: Answer, total: int | None, progress: Progress) -> Any:
        """Write what comes behind what is here; gives the hash of both."""
        position = answer.start
        if total is not None:
            _refuse_full(self.target, total - position)
        digest = _hash_of(self.partial) if position else hashlib.sha256()
        if not position:
            remove_file(self.partial)
            self.version.write_text(answer.version or "", encoding="utf-8")
        with self.partial.open("ab") as file:
            progress(position, total)
            for block in answer.blocks(_BLOCK):
                file.write(block)
                digest.update(block)
                position += len(block)
                progress(position, total)
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
        partial = Partial(target, _FILES, keep=_FILES, exclusive=True)
    except FolderInUse:
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
        reason = "the disk is full" if error.errno == errno.ENOSPC else str(error)
        raise TextError(
            f"{target} cannot be written: {reason}; make room or choose another folder with --to; "
            f"what has come is kept: {_RESUME}"
        ) from None


def _refuse_full(target: Path, n_needed: int) -> None:
    free = shutil.disk_usage(target.parent).free
    if n_needed > free:
        raise TextError(
            f"{target} does not fit: {n_needed:,} bytes are still to come, and the disk has "
            f"{free:,} left; make room, or choose another folder with --to"
        )


def _hash_of(file: Path) -> Any:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256")


def _checksum_file(target: Path) -> Path:
    return target.with_name(target.name + ".sha256")


def _earlier(target: Path) -> str | None:
    """The SHA-256 that an earlier download wrote beside the file."""
    try:
        return read_text(_checksum_file(target)).split()[0]
    except (PellucidError, IndexError):
        return None


def _or_unknown(n_bytes: int | None) -> str:
    return "any number of bytes" if n_bytes is None else f"{n_bytes:,} bytes"
