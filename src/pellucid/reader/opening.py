"""Files and pipes opened for reading; everything else refused.

A pipe (`<(zcat book.txt.gz)`, a FIFO) is read as a file is, but nobody waits for it forever: not
for a program to open it, and not for its next byte. A device (`/dev/zero`, a disk) has no end, and
opening it can change it: it is refused unopened.
"""

from __future__ import annotations

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
#: Bytes of a file that is held whole in memory all the same: a vocabulary, a log.
LARGE = 256 * 2**20

#: How long a pipe may wait for a program that writes to it, and for the next byte from one.
WRITER_SECONDS = 10.0
SILENCE_SECONDS = 60.0

Refusal = type[PellucidError]


def open_file(file: str | Path, *, refusal: Refusal = PellucidError) -> BinaryIO:
    """The bytes of a file or a pipe, to be closed by who asked.

    Raises:
        PellucidError: of the kind `refusal`; there is none, it may not be read, or it is a folder
            or a device. Also while it is read: nobody writes to the pipe.
    """
    try:
        _refuse_kind(file, os.stat(file).st_mode, refusal)
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _BINARY)
    except FileNotFoundError:
        raise refusal(f"{file} does not exist") from None
    except (OSError, ValueError) as error:  # a ValueError: a NUL in the name
        raise refusal(f"{file} cannot be read: {_reason(error)}") from None
    try:
        mode = os.fstat(descriptor).st_mode  # what was opened may be another thing than before
        _refuse_kind(file, mode, refusal)
        if stat.S_ISFIFO(mode):
            os.set_blocking(descriptor, False)
            return cast("BinaryIO", io.BufferedReader(_Pipe(descriptor, str(file), refusal)))
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_bytes(file: str | Path, *, limit: int = SMALL, refusal: Refusal = PellucidError) -> bytes:
    """All bytes of a file or a pipe, of which there are at most `limit`.

    Raises:
        PellucidError: as `open_file`, or there are more.
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
            f"{file} is longer than {limit:,} bytes: expected a file that is read whole, and the "
            "longest are far shorter; is it another file?"
        )
    return b"".join(parts)


def read_text(file: str | Path, *, limit: int = SMALL, refusal: Refusal = PellucidError) -> str:
    r"""A whole file of UTF-8 as text; no byte-order mark, every line end "\n".

    Raises:
        PellucidError: as `read_bytes`, or it is not UTF-8; says at which byte.
    """
    text = decode_text(read_bytes(file, limit=limit, refusal=refusal), str(file), refusal=refusal)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def decode_text(content: bytes, name: str, *, refusal: Refusal = PellucidError) -> str:
    """UTF-8 as text; no byte-order mark.

    Raises:
        PellucidError: it is not UTF-8; says at which byte.
    """
    try:
        return content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise refusal(
            f"{name} is not UTF-8: byte 0x{content[error.start]:02x} at offset {error.start:,} "
            "cannot be decoded; save it as UTF-8"
        ) from None


def refuse_open_device(stream: IO[Any], name: str, *, refusal: Refusal = PellucidError) -> None:
    """Refuse a stream, open already, on a device: but a terminal and the null device have an end.

    Raises:
        PellucidError: it is `/dev/zero`, say.
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
    """Whether `file` is a pipe, which can be read once."""
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
    """A pipe opened without waiting, and read with patience that ends."""

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
        """Up to `n` bytes; none at the end, which the last program to close the pipe makes."""
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
        """A number too long to be shown has a size: Python refuses to write its digits."""
        if x.bit_length() > 200:
            return f"a whole number of about {round(x.bit_length() * 0.30103):,} digits"
        return repr(x)


_SHORT = _Short()


def short(value: object) -> str:
    """As `repr`, cut to what a message has room for."""
    text = _SHORT.repr(value)
    return text if len(text) <= 100 else f"{text[:97]}..."
