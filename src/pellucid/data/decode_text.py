"""Bytes decoded as UTF-8 text, or refused."""

from __future__ import annotations

import codecs
import shlex
from collections.abc import Iterator
from typing import BinaryIO

from pellucid.data.streams import PIPED, inner_name
from pellucid.errors import TextError

_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_UTF32 = (b"\xff\xfe\0\0", b"\0\0\xfe\xff")
#: Bytes of a plain text in memory at a time.
_BLOCK = 2**20


def decode_content(location: str, content: bytes, *, file: str) -> str:
    """UTF-8 as text.

    Args:
        location: the name of the file or the row in messages.
        content: the bytes.
        file: the name of the file in the advice of messages.

    Raises:
        TextError: it is not UTF-8, or has a NUL byte; the message names the offset.
    """
    if content.startswith((*_UTF32, *_UTF16)):
        raise _wide_encoding_error(location, content, file)
    text, _ = _decode(location, content, 0, final=True, file=file)
    return text


def decode_blocks(name: str, stream: BinaryIO) -> Iterator[str]:
    """A stream of UTF-8 as text, block by block; no byte-order mark.

    Raises:
        TextError: it is not UTF-8, or has a NUL byte; the message names the offset in the file.
    """
    start, undecoded, first = 0, b"", True
    while True:
        block = stream.read(_BLOCK)
        content = undecoded + block
        if first and content.startswith((*_UTF32, *_UTF16)):
            raise _wide_encoding_error(name, content, name)
        text, n_decoded = _decode(name, content, start, final=not block, file=name)
        start, undecoded = start + n_decoded, content[n_decoded:]
        yield text.removeprefix("\ufeff") if first else text
        if not block:
            return
        first = first and not n_decoded


def refuse_nul(location: str, text: str) -> None:
    """Refuse a text with a NUL, a character that no writing system has.

    Raises:
        TextError: it has a NUL.
    """
    if "\0" in text:
        raise TextError(
            f"{location} is not a text: it has a NUL at character {text.index(chr(0))}; remove it"
        )


def read_plain_text(name: str, stream: BinaryIO) -> Iterator[str]:
    """A whole file as one text, block by block: no byte-order mark, every line end "\\n".

    Raises:
        TextError: it is not UTF-8, not text, or empty.
    """
    blank, pending = True, ""
    for block in decode_blocks(name, stream):
        text = pending + block
        # perhaps half a line end, whose other half is in the next block
        pending = "\r" if text.endswith("\r") else ""
        text = text.removesuffix(pending)
        blank = blank and not text.strip()
        if text:
            yield text.replace("\r\n", "\n").replace("\r", "\n")
    if blank:
        raise TextError(f"{name} is empty: there is nothing to learn from it")
    if pending:
        yield "\n"


def _decode(
    location: str, content: bytes, start: int, *, final: bool, file: str
) -> tuple[str, int]:
    """The text and how many bytes it took; offsets in messages count from `start`."""
    if b"\0" in content:
        raise TextError(
            f"{location} is not a text: it has a NUL byte at offset {start + content.index(0)}; "
            "pass UTF-8 text files"
        )
    try:
        return codecs.utf_8_decode(content, "strict", final)
    except UnicodeDecodeError as error:
        raise TextError(
            f"{location} is not UTF-8: byte 0x{content[error.start]:02x} at offset "
            f"{start + error.start} cannot be decoded; {_format_advice(content, error, file)}"
        ) from None


def _format_advice(content: bytes, error: UnicodeDecodeError, file: str) -> str:
    """Advice for the user; converting the whole file would spoil the part that is UTF-8."""
    if error.reason == "unexpected end of data":
        return (
            "it ends within a character: if it is incomplete, fetch or make it again; if it is "
            f"not UTF-8 at all, convert it first, for example with {_iconv('ISO-8859-1', file)}"
        )
    if not content[: error.start].removeprefix(codecs.BOM_UTF8).isascii():
        return (
            "the bytes before it are UTF-8 beyond ASCII, so the file seems to mix two encodings: "
            "convert or remove only this part"
        )
    return f"convert it first, for example with {_iconv('ISO-8859-1', file)}"


def _wide_encoding_error(location: str, content: bytes, file: str) -> TextError:
    encoding = "UTF-32" if content.startswith(_UTF32) else "UTF-16"
    return TextError(
        f"{location} is not UTF-8 but {encoding}: convert it first, for example with "
        f"{_iconv(encoding, file)}"
    )


def _iconv(encoding: str, file: str) -> str:
    """The command that converts; without a name for a pipe or an archive."""
    argument = "" if file == PIPED or inner_name(file) != file else f" {shlex.quote(file)}"
    return f"iconv -f {encoding} -t UTF-8{argument}"
