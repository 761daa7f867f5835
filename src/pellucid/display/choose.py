"""Which display a stream gets: a live panel on a terminal, plain lines anywhere else.

Comes in: a stream. Goes out: an observer. It does not know the run.
"""

from __future__ import annotations

import sys
from typing import TextIO

from rich.console import Console

from pellucid.display.panel import Panel
from pellucid.display.plain import PlainLines


def display_for(stream: TextIO | None = None) -> Panel | PlainLines:
    """The display for `stream` (standard output by default).

    rich decides what a terminal is, and honours NO_COLOR, FORCE_COLOR, TERM=dumb, TTY_COMPATIBLE
    and TTY_INTERACTIVE.
    """
    console = Console(file=stream)
    if console.is_terminal and console.is_interactive and not console.is_dumb_terminal:
        return Panel(console)
    return PlainLines(stream or sys.stdout)
