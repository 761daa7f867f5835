"""Files opened as streams of bytes, whatever they were compressed with.

An archive that is damaged or cut short is refused, never taken for a shorter one.
"""

from __future__ import annotations

import gzip
import io
import shutil
import sys
import tempfile
import weakref
import zipfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from pellucid.errors import TextError
from pellucid.reader import open_file, refuse_open_device

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

#: What errors call standard input.
PIPED = "standard input"
#: The endings of compressed files.
COMPRESSED = (".gz", ".zst")

#: Bytes of a disk that a pipe without an end does not get.
_LEFT_FREE = 2**28
#: Compressed bytes taken at a time: few, because a thousand times as many may come out.
_READ_SIZE = 2**14


def inner_name(name: str) -> str:
    """The name of a file without the ending that says how it is compressed."""
    for ending in COMPRESSED:
        if name.lower().endswith(ending):
            return name[: -len(ending)]
    return name


@contextmanager
def opened(path: Path) -> Generator[tuple[str, BinaryIO]]:
    """The bytes of a file, decompressed, and the name whose ending says what they are.

    Files ending in `.gz` or `.zst` are decompressed while you read. A `.zip` is read if it holds
    one file, besides those whose names begin with "_" or ".".

    Raises:
        TextError: the file cannot be read, or is an archive that is damaged, cut short or holds
            more than one file. Also while the stream is read inside the `with`.
    """
    inner = inner_name(path.name)
    if inner != path.name and inner.lower().endswith((".parquet", ".zip")):
        raise TextError(f"{path}: such a file cannot be read from an archive: unpack it first")
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
            f"{path} is cut short: the archive ends before its text does; fetch or make it again"
        ) from None
    except (zlib.error, gzip.BadGzipFile, _DamagedError) as error:
        raise TextError(
            f"{path} is damaged, or not compressed as its name says ({error}): fetch or make it "
            "again"
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
            f"{file} holds {len(names)} files ({', '.join(map(repr, names[:12])) or 'none'}): a "
            ".zip is read if it holds one; unpack it, and name the one you mean"
        )
    if entries[names[0]].flag_bits & 1:
        raise TextError(f"{file} is encrypted: unpack it first")
    return names[0]


class Piped:
    """Pipes, each of which can be read once, in temporary files that can be read again."""

    def __init__(self) -> None:
        self._files: dict[Path | None, BinaryIO] = {}

    def opened(self, pipe: Path | None = None) -> BinaryIO:
        """The bytes that came through a pipe, standard input by default, from the first on.

        Raises:
            TextError: nothing comes through it, or there is no room to keep it.
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
    if sys.stdin is None:  # a process may have been started without
        raise TextError("there is no standard input to read: name a file instead of -")
    refuse_open_device(sys.stdin.buffer, PIPED, refusal=TextError)
    return sys.stdin.buffer


def _spool(stream: BinaryIO, name: str) -> BinaryIO:
    folder = tempfile.gettempdir()
    try:
        file = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115  closed with its owner
        while block := stream.read(2**20):
            if shutil.disk_usage(folder).free < _LEFT_FREE:
                file.close()
                raise TextError(
                    f"{name} does not end before {folder} is full, where it is kept: set TMPDIR to "
                    "a folder with room, or name a file instead of -"
                )
            file.write(block)
        file.flush()
    except OSError as error:
        raise TextError(
            f"{name} cannot be kept in {folder} ({error.strerror}): set "
            "TMPDIR to a folder with room, or name a file instead of -"
        ) from None
    return file


def extra(module: str, name: str, ending: str) -> ModuleType:
    """An optional library that reads files with `ending`.

    Raises:
        TextError: it is not installed; says which extra installs it.
    """
    try:
        return import_module(module)
    except ImportError:
        raise TextError(
            f"files ending in {ending} are read by the library {module.partition('.')[0]}, which "
            f'is not installed: pip install "pellucid[{name}]"'
        ) from None


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
    """Frames of zstd, end to end; unlike the library's own reader it notices a missing end."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._library: Any = extra("zstandard", "zstd", ".zst")
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
