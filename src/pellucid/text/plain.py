"""Bytes taken for text, or refused.

Comes in: bytes and what to call them. Goes out: text with line ends alike. It does not know files.
"""

from __future__ import annotations

import shlex

from pellucid.errors import TextError

_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def decoded(where: str, content: bytes, *, file: str) -> str:
    """UTF-8 as text.

    Args:
        where: what the error calls it, a file or one of its rows.
        file: what the advice in the error calls the file.

    Raises:
        TextError: it is not UTF-8, or has a NUL byte; says at which offset.
    """
    if content.startswith(_UTF16):
        raise TextError(
            f"{where} is not UTF-8 but UTF-16: convert it first, for example with "
            f"iconv -f UTF-16 -t UTF-8 {shlex.quote(file)}"
        )
    if b"\0" in content:
        raise TextError(
            f"{where} is not a text: it has a NUL byte at offset {content.index(0)}; "
            "pass UTF-8 text files"
        )
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TextError(
            f"{where} is not UTF-8: byte 0x{content[error.start]:02x} at offset {error.start} "
            f"cannot be decoded; convert it first, for example with "
            f"iconv -f ISO-8859-1 -t UTF-8 {shlex.quote(file)}"
        ) from None


def refuse_nul(where: str, text: str) -> None:
    """Refuse a text with a NUL in it, which no writing system has."""
    if "\0" in text:
        raise TextError(
            f"{where} is not a text: it has a NUL at character {text.index(chr(0))}; remove it"
        )


def plain_text(name: str, content: bytes) -> str:
    """A whole file as one text: no byte-order mark, every line end "\\n".

    Raises:
        TextError: it is not UTF-8, not text, or empty.
    """
    text = decoded(name, content, file=name).removeprefix("\ufeff")
    if not text.strip():
        raise TextError(f"{name} is empty: there is nothing to learn from it")
    return text.replace("\r\n", "\n").replace("\r", "\n")
