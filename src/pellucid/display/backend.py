"""Choose a display: a live panel on a terminal or in a notebook, plain lines elsewhere.

rich's first styles draw from Python's random generator. A loop may have seeded it before it imports
pellucid, and has to get the same numbers: here rich is loaded first, and the generator put back.
"""

from __future__ import annotations

import os
import random
import sys
from importlib import import_module
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console

    from pellucid.display.panel import Panel
    from pellucid.display.plain import PlainLines

_state = random.getstate()
_rich = import_module("rich.console")
random.setstate(_state)


def display_for(stream: TextIO | None = None) -> Panel | PlainLines:
    """The display for `stream` (standard output by default; in a notebook, the cell's output).

    rich finds out what a terminal can do, and honours NO_COLOR, TERM=dumb, TTY_COMPATIBLE and
    TTY_INTERACTIVE. A stream that is no terminal never gets a panel: CI sets FORCE_COLOR and
    TTY_COMPATIBLE=1 to get colours in a log, but a log cannot move a cursor. Some CI systems have a
    terminal and save its output as a log, so CI=true gets plain lines too.
    """
    from pellucid.display.notebook import NotebookPanel
    from pellucid.display.panel import Panel
    from pellucid.display.plain import PlainLines

    console = _rich.Console(file=stream)
    if stream is None and console.is_jupyter:
        return NotebookPanel()
    output = stream or sys.stdout
    return Panel(console) if can_redraw(console, output) else PlainLines(output)


def can_redraw(console: Console, stream: TextIO) -> bool:
    """Whether a display may redraw its lines on a stream, because a person watches it.

    Args:
        console: rich's view of the stream.
        stream: The stream itself.
    """
    if os.environ.get("CI", "").lower() not in ("", "0", "false"):
        return False
    is_terminal = stream.isatty() and console.is_terminal
    return is_terminal and console.is_interactive and not console.is_dumb_terminal
