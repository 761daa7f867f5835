"""Files and pipes opened for reading; everything else refused.

pellucid reads a pipe (`<(zcat book.txt.gz)`, a FIFO) like a file, but does not wait for it forever:
neither for a program that opens it, nor for its next byte. A device (`/dev/zero`, a disk) has no
end, and opening it can change it, so pellucid refuses it without opening it.
"""

from __future__ import annotations

import hashlib
import io
import os
import reprlib
import select
import stat
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, cast

from pellucid.errors import PellucidError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

#: Bytes of a description: a config, a manifest, the state of a checkpoint.
SMALL = 16 * 2**20
#: Bytes of a larger file that is still held in memory: a vocabulary, a log.
LARGE = 256 * 2**20

#: Seconds to wait for a program that writes to a pipe, and for its next byte.
WRITER_SECONDS = 10.0
SILENCE_SECONDS = 60.0

Refusal = type[PellucidError]


def open_file(file: str | Path, *, refusal: Refusal = PellucidError) -> BinaryIO:
    """The bytes of a file or a pipe as a stream, which the caller closes.

    Raises:
        PellucidError: of the kind `refusal`: the file is missing, unreadable, a folder or a device.
            Reading raises it too, if no program writes to the pipe.
    """
    try:
        _refuse_kind(file, os.stat(file).st_mode, refusal)
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _BINARY)
    except FileNotFoundError:
        raise refusal(f"{file} does not exist") from None
    except (OSError, ValueError) as error:  # a ValueError: a NUL in the name
        raise refusal(f"{file} cannot be read: {_reason(error)}") from None
    try:
        mode = os.fstat(descriptor).st_mode  # another file may be there by now
        _refuse_kind(file, mode, refusal)
        if stat.S_ISFIFO(mode):
            os.set_blocking(descriptor, False)
            return cast("BinaryIO", io.BufferedReader(_Pipe(descriptor, str(file), refusal)))
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_bytes(file: str | Path, *, limit: int = SMALL, refusal: Refusal = PellucidError) -> bytes:
    """All bytes of a file or a pipe.

    Args:
        file: a path.
        limit: the largest number of bytes.
        refusal: the kind of error to raise.

    Raises:
        PellucidError: as `open_file`, or the file is longer.
    """
    parts: list[bytes] = []
    remaining = limit + 1
    try:
        with open_file(file, refusal=refusal) as stream:
            while remaining and (part := stream.read(min(remaining, 2**20))):
                parts.append(part)
                remaining -= len(part)
    except OSError as error:
        raise refusal(f"{file} cannot be read: {_reason(error)}") from None
    if not remaining:
        raise refusal(
            f"{file} is longer than {limit:,} bytes: files of this kind are far shorter; is it "
            "another file?"
        )
    return b"".join(parts)


def read_text(file: str | Path, *, limit: int = SMALL, refusal: Refusal = PellucidError) -> str:
    r"""A UTF-8 file as text, without byte-order mark and with "\n" as every line end.

    Args:
        file: a path.
        limit: the largest number of bytes.
        refusal: the kind of error to raise.

    Raises:
        PellucidError: as `read_bytes`, or it is not UTF-8; names the byte.
    """
    text = decode_text(read_bytes(file, limit=limit, refusal=refusal), str(file), refusal=refusal)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def decode_text(content: bytes, name: str, *, refusal: Refusal = PellucidError) -> str:
    """UTF-8 as text, without byte-order mark.

    Args:
        content: the bytes.
        name: what errors call them.
        refusal: the kind of error to raise.

    Raises:
        PellucidError: it is not UTF-8; names the byte.
    """
    try:
        return content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise refusal(
            f"{name} is not UTF-8: byte 0x{content[error.start]:02x} at offset {error.start:,} "
            "cannot be decoded; save it as UTF-8"
        ) from None


def refuse_open_device(stream: IO[Any], name: str, *, refusal: Refusal = PellucidError) -> None:
    """Refuse an open stream on a device without an end: a terminal and the null device have one.

    Args:
        stream: standard input, for example.
        name: what errors call it.
        refusal: the kind of error to raise.

    Raises:
        PellucidError: it is such a device, for example `/dev/zero`.
    """
    try:
        mode = os.fstat(stream.fileno())
    except (OSError, ValueError):  # it has no file
        return
    null = os.stat(os.devnull)
    if stat.S_ISCHR(mode.st_mode) and (stream.isatty() or os.path.samestat(mode, null)):
        return
    _refuse_kind(name, mode.st_mode, refusal)


def is_pipe(file: str | Path) -> bool:
    """Whether `file` is a pipe, which can be read only once."""
    try:
        return stat.S_ISFIFO(os.stat(file).st_mode)
    except (OSError, ValueError):
        return False


_BINARY = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_NOT_FILES = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def _refuse_kind(file: str | Path, mode: int, refusal: Refusal) -> None:
    for is_kind, name in _NOT_FILES:
        if is_kind(mode):
            raise refusal(f"{file} is {name}: expected a file, or a pipe that ends")


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


class _Pipe(io.RawIOBase):
    """A pipe that is opened without waiting, and read with a time limit."""

    def __init__(self, descriptor: int, name: str, refusal: Refusal) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._name = name
        self._refusal = refusal

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        target = memoryview(buffer).cast("B")
        part = self._next(len(target))
        target[: len(part)] = part
        return len(part)

    def close(self) -> None:
        if not self.closed:
            os.close(self._descriptor)
        super().close()

    def _next(self, n: int) -> bytes:
        """Up to `n` bytes; none once the last program has closed the pipe."""
        pipe = select.poll()
        pipe.register(self._descriptor, select.POLLIN)
        if pipe.poll(WRITER_SECONDS * 1000):
            return os.read(self._descriptor, n)
        try:
            part = os.read(self._descriptor, n)
        except BlockingIOError:  # a program has it open
            if pipe.poll(SILENCE_SECONDS * 1000):
                return os.read(self._descriptor, n)
            raise self._refusal(
                f"{self._name} is a pipe that fell silent: its program wrote nothing for "
                f"{WRITER_SECONDS + SILENCE_SECONDS:g} seconds; let it write to a file, and read "
                "that"
            ) from None
        if not part:
            raise self._refusal(
                f"{self._name} is a pipe that no program writes to: nothing came in "
                f"{WRITER_SECONDS:g} seconds; start the program that writes to it first"
            )
        return part


class _Short(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother = 3, 60, 60
        self.maxlist = self.maxtuple = self.maxdict = 4

    def repr_int(self, x: int, level: int) -> str:
        """Show the size of a long number: Python refuses to write its digits."""
        if x.bit_length() > 200:
            return f"a whole number of about {round(x.bit_length() * 0.30103):,} digits"
        return repr(x)


_SHORT = _Short()


def short(value: object) -> str:
    """As `repr`, cut to fit into a message."""
    text = _SHORT.repr(value)
    return text if len(text) <= 100 else f"{text[:97]}..."


def file_sha256(file: Path) -> str:
    """The SHA-256 of a file, read from its first byte to its last."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
