"""Text and numbers for people: they fit a line and are harmless to a terminal."""

from __future__ import annotations

import io
import re

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text


def visible(text: str) -> str:
    """The text with its control characters drawn (␛, ␊): none of them reaches a terminal."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", _draw_control, text)


def _draw_control(match: re.Match[str]) -> str:
    code = ord(match[0])
    return chr(0x2400 + code) if code < 0x20 else "␡" if code == 0x7F else "�"


def folded(text: str, columns: int) -> list[str]:
    """A line as lines of at most `columns` cells, broken between words if possible."""
    lines = Text(text).wrap(Console(width=columns, file=io.StringIO()), columns, overflow="fold")
    return [line.plain.rstrip() for line in lines]


def one_line(text: str) -> str:
    """The text on one line: each run of white space becomes a blank."""
    return visible(" ".join(text.split()))


def fitted(text: str, columns: int) -> str:
    """The text in exactly so many cells; an ellipsis marks a text that is cut."""
    if cell_len(text) > columns:
        text = set_cell_size(text, columns - 1).rstrip() + "…"
    return set_cell_size(text, columns)
