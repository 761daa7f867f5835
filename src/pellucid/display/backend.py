"""Choose a display: a live panel on a terminal or in a notebook, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from rich.console import Console

from pellucid.display.notebook import NotebookPanel
from pellucid.display.panel import Panel
from pellucid.display.plain import PlainLines


def display_for(stream: TextIO | None = None) -> Panel | PlainLines:
    """The display for `stream` (standard output by default; in a notebook, the cell's output).

    rich decides what a terminal can do, and honours NO_COLOR, TERM=dumb, TTY_COMPATIBLE and
    TTY_INTERACTIVE. But what is no terminal never gets a panel: FORCE_COLOR and TTY_COMPATIBLE=1,
    as CI sets them, ask for colours in a log, and a log cannot move a cursor. Some of them show a
    terminal, too, and keep what was written to it as a log: CI=true gets plain lines.
    """
    console = Console(file=stream)
    if stream is None and console.is_jupyter:
        return NotebookPanel()
    out = stream or sys.stdout
    return Panel(console) if can_redraw(console, out) else PlainLines(out)


def can_redraw(console: Console, out: TextIO) -> bool:
    """Whether a display may redraw its lines on a stream, because a person looks at it.

    Args:
        console: rich's view of the stream.
        out: the stream itself.
    """
    if os.environ.get("CI", "").lower() not in ("", "0", "false"):
        return False
    is_terminal = out.isatty() and console.is_terminal
    return is_terminal and console.is_interactive and not console.is_dumb_terminal
