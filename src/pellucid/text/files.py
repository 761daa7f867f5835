"""Plain text from files, folders and standard input.

Comes in: paths. Goes out: one document per file. It does not know tokens; what is not text is
refused with the name of the file and what to do.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from pellucid.errors import TextError
from pellucid.text.documents import Document

#: What is read when a folder is named; a file named by itself may be called anything.
SUFFIXES = (".txt", ".md", ".rst")


def documents_from(paths: Iterable[str]) -> list[Document]:
    """One document per file, folders searched to the bottom, in the order of their paths.

    "-" is standard input. Line ends become "\\n"; a byte-order mark is dropped.

    Raises:
        TextError: a path that does not exist, a folder without text, a file that is empty or not
            UTF-8 text.
    """
    return [document for path in paths for document in _documents(path)]


def _documents(path: str) -> Iterator[Document]:
    if path == "-":
        yield _document("standard input", sys.stdin.buffer.read())
        return
    for file in _files(Path(path)):
        try:
            content = file.read_bytes()
        except OSError as error:
            raise TextError(f"{file} cannot be read: {error.strerror}") from None
        yield _document(str(file), content)


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise TextError(
            f"{path} does not exist: pass a text file, a folder of text files, or - for standard "
            "input"
        )
    if not path.is_dir():
        return [path]
    named = (file for suffix in SUFFIXES for file in path.rglob(f"*{suffix}"))
    found = sorted(file for file in named if not file.is_dir())
    if not found:
        raise TextError(
            f"the folder {path} holds no text: files ending in {', '.join(SUFFIXES)} are read "
            "from a folder; name a file by itself to read it whatever its ending"
        )
    return found


def _document(name: str, content: bytes) -> Document:
    if b"\0" in content:
        raise TextError(
            f"{name} is not a text: it has a NUL byte at offset {content.index(0)}; "
            "pass UTF-8 text files"
        )
    try:
        text = content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise TextError(
            f"{name} is not UTF-8: byte 0x{content[error.start]:02x} at offset {error.start} "
            f"cannot be decoded; convert it first, for example with "
            f"iconv -f ISO-8859-1 -t UTF-8 {name}"
        ) from None
    if not text.strip():
        raise TextError(f"{name} is empty: there is nothing to learn from it")
    return Document(name, text.replace("\r\n", "\n").replace("\r", "\n"))
