"""Show the events of a run: a live panel, or plain lines.

Must not know: the run, the model.
"""

from pellucid.display.backend import can_redraw, display_for
from pellucid.display.notebook import NotebookPanel
from pellucid.display.panel import Panel
from pellucid.display.plain import PlainLines
from pellucid.display.terminal_text import folded, visible
from pellucid.old_words import take_old_words as _take_old_words

__all__ = [
    "NotebookPanel",
    "Panel",
    "PlainLines",
    "can_redraw",
    "display_for",
    "folded",
    "visible",
]

_take_old_words(__name__, globals())
