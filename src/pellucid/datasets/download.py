"""A file from the network, complete or not at all.

Until it is complete, its bytes are in a folder `NAME.partial`. There, the file `version` has the
server's name for this version. So a later call continues where this one stopped, and never joins
two versions.
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

#: Called with the number of bytes so far, and of all bytes if that is known.
Progress = Callable[[int, int | None], None]

_BLOCK = 2**18
_CONTENT, _VERSION = _FILES = ("content", "version")
_RESUME = "the same command continues from there"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A complete file.

    Attributes:
        path: where it is.
        n_bytes: its size.
        sha256: its hash.
        checked: the origin of the checksum that it matches: "published", "server", "earlier" (of an
            earlier download), or None if there is no checksum.
        was_there: whether the file existed before the call.
    """

    path: Path
    n_bytes: int
    sha256: str
    checked: str | None
    was_there: bool = False


def find_file(target: Path, *, n_bytes: int | None, sha256: str | None) -> Fetched | None:
    """The file at `target` if it exists and is the right one; None if it does not exist.

    Args:
        target: the path.
        n_bytes: the published size, if known.
        sha256: the published hash, if known.

    Raises:
        TextError: another file has this name, or there is no size and no hash to check it.
    """
    if not target.exists():
        return None
    if not target.is_file():
        raise TextError(f"{target} exists and is no file: choose another folder with --to")
    advice = "move it away, or choose another folder with --to"
    size, actual = target.stat().st_size, _hash_of(target).hexdigest()
    expected, checked = (sha256, "published") if sha256 else (_read_earlier_hash(target), "earlier")
    if expected is None and n_bytes is None:
        raise TextError(f"{target} exists, and there is no checksum to compare it with: {advice}")
    if (n_bytes is not None and size != n_bytes) or (expected is not None and actual != expected):
        raise TextError(
            f"{target} exists and is another file: it has {size:,} bytes and SHA-256 {actual}, "
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
    """Download the file at `address` to `target`; continue an earlier call that was interrupted.

    If no SHA-256 is published, the server's is used, if it sends one, and the computed one is
    written to a file next to `target`, in the format of `sha256sum`.

    Args:
        address: the address of the file.
        target: the path for it.
        n_bytes: the published size, if known.
        sha256: the published hash, if known.
        progress: is called for each block.

    Raises:
        TextError: the server refuses, sends another file or stops halfway, or the disk is full.
            `target` never has an incomplete file.
    """
    existing = find_file(target, n_bytes=n_bytes, sha256=sha256)
    if existing is not None:
        return existing
    with _report_disk_errors(target), _open_unfinished(target) as folder:
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
            total, expected = self._check_agreement(answer)
            digest = self._receive(answer, total, progress)
        size = self.partial.stat().st_size
        if total is not None and size < total:
            raise TextError(
                f"the connection broke after {size:,} of {total:,} bytes of {self.address}; these "
                f"bytes stay: {_RESUME}"
            )
        if size == 0:
            raise TextError(f"{self.address} is empty: try again later, or another --from")
        actual = digest.hexdigest()
        if (total is not None and size != total) or (expected is not None and actual != expected):
            self._drop()
            raise TextError(
                f"{self.address} sent another file: {size:,} bytes with SHA-256 {actual}, "
                f"expected {_or_unknown(total)} and {expected or 'any'}; pellucid removed it: try "
                "again, or choose another source with --from"
            )
        self._place(actual)
        checked = "published" if self.sha256 else "server" if expected else None
        return Fetched(path=self.target, n_bytes=size, sha256=actual, checked=checked)

    def _place(self, sha256: str) -> None:
        """Rename the file to its final name; if no hash is published, write one next to it."""
        if self.sha256 is None:
            checksum_file, line = _checksum_file(self.target), f"{sha256}  {self.target.name}\n"
            if os.path.lexists(checksum_file) and _read_earlier_hash(self.target) != sha256:
                raise TextError(
                    f"{checksum_file} exists, with another SHA-256 than the download, {sha256}: "
                    f"move it away; the downloaded bytes stay: {_RESUME}"
                )
            if not os.path.lexists(checksum_file):
                write_text(checksum_file, line)
        if os.path.lexists(self.target):
            raise TextError(
                f"{self.target} appeared during the download, and pellucid does not overwrite it: "
                f"move it away; the downloaded bytes stay: {_RESUME}"
            )
        move(self.partial, self.target)

    @contextmanager
    def _answer(self) -> Generator[Answer]:
        """The server's answer to a request for the missing bytes."""
        position, version = self._read_partial()
        with ask(self.address, start=position, version=version) as answer:
            if answer.continues(position, version):
                yield answer
                return
        self._drop()
        with ask(self.address, start=0, version=None) as answer:
            if answer.start:
                raise TextError(
                    f"{self.address} sent only its end instead of all bytes: try another --from"
                )
            yield answer

    def _read_partial(self) -> tuple[int, str | None]:
        """The number of bytes so far and their version; 0 bytes if the version is unknown."""
        try:
            version = read_text(self.version).strip()
            return (self.partial.stat().st_size, version) if version else (0, None)
        except (FileNotFoundError, PellucidError):
            return 0, None

    def _check_agreement(self, answer: Answer) -> tuple[int | None, str | None]:
        """The expected size and SHA-256 of the file; a server with another file is refused."""
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
                    f"{expected_value} expected, but the server says {server_value}; "
                    "choose another source with --from"
                )
        total = self.n_bytes if total is None else total
        return total, self.sha256 or answer.linked_sha256

    def _receive(self, answer: Answer, total: int | None, progress: Progress) -> Any:
        """Append the answer to the bytes so far, and return the hash of all."""
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
def _open_unfinished(target: Path) -> Generator[Path]:
    """The folder for an unfinished download; it is removed if it has no bytes."""
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
def _report_disk_errors(target: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        reason = "the disk is full" if error.errno == errno.ENOSPC else str(error)
        raise TextError(
            f"{target} cannot be written: {reason}; make room or choose another folder with --to; "
            f"the downloaded bytes stay: {_RESUME}"
        ) from None


def _refuse_full(target: Path, n_needed: int) -> None:
    free = shutil.disk_usage(target.parent).free
    if n_needed > free:
        raise TextError(
            f"{target} does not fit: {n_needed:,} bytes are missing, and the disk has {free:,} "
            "left; make room, or choose another folder with --to"
        )


def _hash_of(file: Path) -> Any:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256")


def _checksum_file(target: Path) -> Path:
    return target.with_name(target.name + ".sha256")


def _read_earlier_hash(target: Path) -> str | None:
    """The SHA-256 that an earlier download wrote next to the file."""
    try:
        return read_text(_checksum_file(target)).split()[0]
    except (PellucidError, IndexError):
        return None


def _or_unknown(n_bytes: int | None) -> str:
    return "any number of bytes" if n_bytes is None else f"{n_bytes:,} bytes"
