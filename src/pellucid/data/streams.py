"""Files opened as streams of bytes, decompressed.

A damaged or incomplete archive is refused; it never passes for a shorter one.
"""

from __future__ import annotations

import gzip
import io
import sys
import tempfile
import weakref
import zipfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from pellucid.disk import free_bytes
from pellucid.errors import TextError
from pellucid.extras import import_extra
from pellucid.reader import open_file, refuse_open_device

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

#: The name of standard input in messages.
PIPED = "standard input"
#: The endings of compressed files.
COMPRESSED = (".gz", ".zst")

#: Bytes of the disk that stay free, in case a pipe has no end.
_LEFT_FREE = 2**28
#: Compressed bytes to read at a time: few, because they may expand a thousandfold.
_READ_SIZE = 2**14


def inner_name(name: str) -> str:
    """The name of a file without the ending of its compression."""
    for ending in COMPRESSED:
        if name.lower().endswith(ending):
            return name[: -len(ending)]
    return name


@contextmanager
def opened(path: Path) -> Generator[tuple[str, BinaryIO]]:
    """The decompressed bytes of a file, and the name of its content.

    Files ending in `.gz` or `.zst` are decompressed while you read. A `.zip` is read if it holds
    one file, besides those whose names begin with "_" or ".".

    Raises:
        TextError: the file cannot be read, or is an archive that is damaged, incomplete or holds
            more than one file. Reading the stream inside the `with` may raise it too.
    """
    inner = inner_name(path.name)
    if inner != path.name and inner.lower().endswith((".parquet", ".arrow", ".zip")):
        raise TextError(
            f"{path}: pellucid cannot read such a file from an archive: unpack it first"
        )
    try:
        with open_file(path, refusal=TextError) as file:
            if path.suffix.lower() == ".zip":
                with zipfile.ZipFile(file) as archive:
                    member = _member(path, archive)
                    with archive.open(member) as stream:
                        yield member, cast("BinaryIO", stream)
            else:
                yield inner, _decompressed(path, file)
    except EOFError:
        raise TextError(
            f"{path} is incomplete: the archive ends before its text; fetch or make it again"
        ) from None
    except (zlib.error, gzip.BadGzipFile, _DamagedError) as error:
        raise TextError(
            f"{path} is damaged, or its compression does not match its name ({error}): fetch or "
            "make it again"
        ) from None
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise TextError(
            f"{path} is damaged, or a .zip of an unknown kind ({error}): fetch or make it again"
        ) from None
    except OSError as error:
        raise TextError(f"{path} cannot be read: {error.strerror or error}") from None


def _member(file: Path, archive: zipfile.ZipFile) -> str:
    """The one file of an archive.

    Raises:
        TextError: there are several, or it needs a password.
    """
    entries = {entry.filename: entry for entry in archive.infolist() if not entry.is_dir()}
    hidden = ("_", ".")
    names = [
        name
        for name in entries
        if not (Path(name).parts[0].startswith(hidden) or Path(name).name.startswith(hidden))
    ]
    if len(names) != 1:
        raise TextError(
            f"{file} holds {len(names)} files ({', '.join(map(repr, names[:12])) or 'none'}), but "
            "pellucid reads a .zip only if it holds one: unpack it, and name the file that you mean"
        )
    if entries[names[0]].flag_bits & 1:
        raise TextError(f"{file} is encrypted: unpack it first")
    return names[0]


class Piped:
    """The bytes of pipes in temporary files: a pipe itself can be read only once."""

    def __init__(self) -> None:
        self._files: dict[Path | None, BinaryIO] = {}

    def opened(self, pipe: Path | None = None) -> BinaryIO:
        """All bytes of a pipe, by default of standard input.

        Raises:
            TextError: the pipe cannot be read, or the disk has no room for its bytes.
        """
        if pipe not in self._files:
            if pipe is None:
                file = _spool(_standard_input(), PIPED)
            else:
                with open_file(pipe, refusal=TextError) as stream:
                    file = _spool(stream, str(pipe))
            weakref.finalize(self, file.close)
            self._files[pipe] = file
        self._files[pipe].seek(0)
        return self._files[pipe]


def _standard_input() -> BinaryIO:
    if sys.stdin is None:  # a process can start without one
        raise TextError("there is no standard input to read: name a file instead of -")
    refuse_open_device(sys.stdin.buffer, PIPED, refusal=TextError)
    return sys.stdin.buffer


def _spool(stream: BinaryIO, name: str) -> BinaryIO:
    folder = tempfile.gettempdir()
    try:
        file = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115  closed with its owner
        while block := stream.read(2**20):
            if free_bytes(Path(folder)) < _LEFT_FREE:
                file.close()
                raise TextError(
                    f"{name} fills {folder}, where pellucid stores it: set TMPDIR to a folder with "
                    "more room, or name a file instead of -"
                )
            file.write(block)
        file.flush()
    except OSError as error:
        raise TextError(
            f"{name} cannot be stored in {folder} ({error.strerror}): set TMPDIR to a folder with "
            "more room, or name a file instead of -"
        ) from None
    return file


def _decompressed(path: Path, file: BinaryIO) -> BinaryIO:
    ending = path.suffix.lower()
    if ending == ".gz":
        return cast("BinaryIO", gzip.GzipFile(fileobj=file))
    if ending == ".zst":
        return cast("BinaryIO", io.BufferedReader(_Zstd(file)))
    return file


class _DamagedError(Exception):
    """A zstd frame that cannot be decompressed."""


class _Zstd(io.RawIOBase):
    """Frames of zstd, end to end; unlike the library's reader, it notices a missing end."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._library: Any = import_extra("zstd", "zstandard")
        self._file = file
        self._frame: Any = None
        self._unused = b""
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        while not self._ready:
            compressed = self._unused or self._file.read(_READ_SIZE)
            if not compressed:
                if self._frame is not None:
                    raise EOFError
                return 0
            self._ready = memoryview(self._decompress(compressed))
        target = memoryview(buffer).cast("B")
        n = min(len(target), len(self._ready))
        target[:n] = self._ready[:n]
        self._ready = self._ready[n:]
        return n

    def _decompress(self, compressed: bytes) -> bytes:
        if self._frame is None:
            self._frame = self._library.ZstdDecompressor().decompressobj()
        try:
            content: bytes = self._frame.decompress(compressed)
        except self._library.ZstdError as error:
            raise _DamagedError(error) from None
        self._unused = self._frame.unused_data
        if self._frame.eof:
            self._frame = None
        return content
