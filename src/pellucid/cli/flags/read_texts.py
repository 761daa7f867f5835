"""Texts from the command line, a file or a pipe."""

from __future__ import annotations

import argparse
import sys

from pellucid.errors import TextError
from pellucid.reader import LARGE, read_text, refuse_open_device


def add_texts(parser: argparse.ArgumentParser) -> None:
    """Add the texts, and a file of them."""
    parser.add_argument("texts", nargs="*", metavar="TEXT")
    parser.add_argument("--file", metavar="FILE", help="texts, one per line; - is standard input")


def read_texts(arguments: argparse.Namespace, *, purpose: str) -> list[str]:
    """The texts of a command.

    Args:
        arguments: the flags of `add_texts`.
        purpose: a verb for the message, such as "embed".

    Raises:
        TextError: there is no text, or the file is not UTF-8.
    """
    texts: list[str] = list(arguments.texts)
    if texts == ["-"]:
        texts = []
        arguments.file = "-"
    if arguments.file == "-":
        texts += _split_lines(read_stdin("text"))
    elif arguments.file is not None:
        texts += _split_lines(read_text(arguments.file, limit=LARGE, refusal=TextError))
    elif not texts and sys.stdin is not None and not sys.stdin.isatty():
        texts = _split_lines(read_stdin("text"))
    if not texts:
        raise TextError(f"there is no text to {purpose}: name some, or give --file, one per line")
    return texts


def prompts_or_session(arguments: argparse.Namespace, prompts: list[str]) -> list[str]:
    """The prompts of a command, or one from standard input; none for a session on a terminal."""
    is_session = not arguments.json and sys.stdin is not None and sys.stdin.isatty()
    return prompts or ([] if is_session else [read_stdin("prompt")])


def read_stdin(name: str) -> str:
    """The text on standard input, without its last line end; `name` is for messages.

    Raises:
        TextError: it is a device without an end, not in its encoding, or larger than memory allows.
    """
    if sys.stdin is None:
        return ""
    refuse_open_device(sys.stdin, f"the {name} on standard input", refusal=TextError)
    try:
        text = sys.stdin.read(LARGE + 1)
    except UnicodeDecodeError as error:
        raise TextError(
            f"the {name} on standard input is not {error.encoding.upper()} (byte "
            f"0x{error.object[error.start]:02x} at offset {error.start}): convert it first"
        ) from None
    if len(text) > LARGE:
        raise TextError(
            f"the {name} on standard input is longer than {LARGE:,} characters: expected one that "
            "fits in memory; give less of it"
        )
    return text.rstrip("\n")


def _split_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]
