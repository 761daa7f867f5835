"""Texts on a command line, in a file or through a pipe; and how one is shown in a line.

Comes in: words. Goes out: texts. It does not know what is done with them.
"""

from __future__ import annotations

import argparse
import sys

from pellucid.cli.flags.stdin import piped
from pellucid.errors import TextError
from pellucid.reader import LARGE, read_text

#: How much of a text is shown.
WIDTH = 60


def add_texts(parser: argparse.ArgumentParser) -> None:
    """The texts, and a file of them."""
    parser.add_argument("texts", nargs="*", metavar="TEXT")
    parser.add_argument("--file", metavar="FILE", help="texts, one a line; - is standard input")


def texts_of(arguments: argparse.Namespace, *, to: str) -> list[str]:
    """The texts that were given, to do what the message calls `to`.

    Raises:
        TextError: there is none, or the file is not UTF-8.
    """
    texts: list[str] = list(arguments.texts)
    if texts == ["-"]:
        texts = []
        arguments.file = "-"
    if arguments.file == "-":
        texts += _lines(piped("text"))
    elif arguments.file is not None:
        texts += _lines(read_text(arguments.file, limit=LARGE, refusal=TextError))
    elif not texts and sys.stdin is not None and not sys.stdin.isatty():
        texts = _lines(piped("text"))
    if not texts:
        raise TextError(f"there is no text to {to}: name some, or give --file, one text a line")
    return texts


def line(text: str) -> str:
    """As much of a text as fits a line."""
    from pellucid.display import visible

    text = visible(text)
    return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"


def _lines(text: str) -> list[str]:
    return [text_line for text_line in text.splitlines() if text_line.strip()]
