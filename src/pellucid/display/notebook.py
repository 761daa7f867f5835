"""The live panel in a notebook: one output of a cell, redrawn at most twice a second."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from rich.console import Console, RenderableType
from rich.text import Text

from pellucid.display.example import example_lines
from pellucid.display.panel import Panel
from pellucid.display.terminal_text import visible
from pellucid.display.vital_rows import Changes
from pellucid.training import events

#: Without colours of its own, so that the panel is readable in a dark notebook too.
_HTML = '<pre style="font-family:monospace;line-height:1.25">{code}</pre>'


class NotebookPanel(Panel):
    """An observer that keeps one panel in a notebook's cell.

    Args:
        show: IPython's `display`, which is called once and returns the handle for updates.
    """

    # each update goes through the kernel's queue to the browser
    seconds_between = 0.5

    def __init__(self, show: Callable[..., Any] | None = None) -> None:
        # lasting lines are ordinary output of the cell
        super().__init__(Console(file=sys.stdout, force_jupyter=False, force_terminal=False))
        self._show = show or _ipython_display()
        self._handle: Any = None
        self._changes = Changes()

    def __call__(self, event: events.Event) -> None:
        """Redraw the panel; if a word has changed, print a lasting line."""
        if isinstance(event, events.Vitals):
            for line in self._changes.lines(event):
                self._console.print(Text(visible(line)), soft_wrap=True)
        super().__call__(event)

    def close(self) -> None:
        """Draw the last panel, with the last numbers."""
        if self._handle is not None:
            self._redraw()

    def _show_example(self, event: events.Example) -> None:
        # an output of its own, because the panel's output is replaced all the time
        text = "\n".join(visible(line) for line in example_lines(event))
        self._show(_bundle(Text(text)), raw=True, display_id=True)

    @property
    def _room(self) -> int | None:
        return None  # a cell is as high as its content

    @property
    def _width(self) -> int:
        return 80

    def _redraw(self) -> None:
        bundle = _bundle(self._frame())
        if self._handle is None:
            self._handle = self._show(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)


def _bundle(renderable: RenderableType) -> dict[str, str]:
    page = Console(
        file=io.StringIO(), record=True, width=80, force_jupyter=False, color_system="standard"
    )
    page.print(renderable)
    return {
        "text/plain": page.export_text(clear=False),
        "text/html": page.export_html(inline_styles=True, code_format=_HTML),
    }


def _ipython_display() -> Callable[..., Any]:
    return import_module("IPython.display").display
