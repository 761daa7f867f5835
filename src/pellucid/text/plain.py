"""Bytes taken for text, or refused.

Comes in: bytes and what to call them. Goes out: text with line ends alike. It does not know files.
"""

from __future__ import annotations

import codecs
import shlex
from collections.abc import Iterator
from typing import BinaryIO

from pellucid.errors import TextError

_UTF16 = (b"\xff\xfe", b"\xfe\xff")
#: Bytes of a plain text in memory at a time.
_BLOCK = 2**20


def decoded(where: str, content: bytes, *, file: str) -> str:
    """UTF-8 as text.

    Args:
        where: what the error calls it, a file or one of its rows.
        file: what the advice in the error calls the file.

    Raises:
        TextError: it is not UTF-8, or has a NUL byte; says at which offset.
    """
    if content.startswith(_UTF16):
        raise _utf16(where, file)
    text, _ = _decoded(where, content, 0, final=True, file=file)
    return text


def decoded_blocks(name: str, stream: BinaryIO) -> Iterator[str]:
    """A stream of UTF-8 as text, block by block; no byte-order mark.

    Raises:
        TextError: it is not UTF-8, or has a NUL byte; says at which offset of the whole.
    """
    start, rest, first = 0, b"", True
    while True:
        block = stream.read(_BLOCK)
        content = rest + block
        if first and content.startswith(_UTF16):
            raise _utf16(name, name)
        text, taken = _decoded(name, content, start, final=not block, file=name)
        start, rest = start + taken, content[taken:]
        yield text.removeprefix("\ufeff") if first else text
        if not block:
            return
        first = first and not taken


def refuse_nul(where: str, text: str) -> None:
    """Refuse a text with a NUL in it, which no writing system has."""
    if "\0" in text:
        raise TextError(
            f"{where} is not a text: it has a NUL at character {text.index(chr(0))}; remove it"
        )


def plain_text(name: str, stream: BinaryIO) -> Iterator[str]:
    """A whole file as one text, block by block: no byte-order mark, every line end "\\n".

    Raises:
        TextError: it is not UTF-8, not text, or empty.
    """
    blank, held = True, ""
    for block in decoded_blocks(name, stream):
        text = held + block
        # half a line end, perhaps: the other half comes with the next block
        held = "\r" if text.endswith("\r") else ""
        text = text.removesuffix(held)
        blank = blank and not text.strip()
        if text:
            yield text.replace("\r\n", "\n").replace("\r", "\n")
    if blank:
        raise TextError(f"{name} is empty: there is nothing to learn from it")
    if held:
        yield "\n"


def _decoded(where: str, content: bytes, start: int, *, final: bool, file: str) -> tuple[str, int]:
    """Text, and how many bytes it was made of; `start` is what offsets are counted from."""
    if b"\0" in content:
        raise TextError(
            f"{where} is not a text: it has a NUL byte at offset {start + content.index(0)}; "
            "pass UTF-8 text files"
        )
    try:
        return codecs.utf_8_decode(content, "strict", final)
    except UnicodeDecodeError as error:
        raise TextError(
            f"{where} is not UTF-8: byte 0x{content[error.start]:02x} at offset "
            f"{start + error.start} cannot be decoded; convert it first, for example with "
            f"iconv -f ISO-8859-1 -t UTF-8 {shlex.quote(file)}"
        ) from None


def _utf16(where: str, file: str) -> TextError:
    return TextError(
        f"{where} is not UTF-8 but UTF-16: convert it first, for example with "
        f"iconv -f UTF-16 -t UTF-8 {shlex.quote(file)}"
    )
