"""Several runs on one terminal: a line for each, and the panel of one of them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.text import Text

from pellucid.display.numbers import duration
from pellucid.display.panel import Panel
from pellucid.display.panel_frame import PanelState, build_frame
from pellucid.display.terminal_text import fitted, visible
from pellucid.training import events

_NAME_COLUMNS = 24


class SeveralPanel(Panel):
    """A panel of several runs; the key `n` shows the next one.

    Args:
        console: the terminal.
        names: the names of the runs.
    """

    def __init__(self, console: Console, names: Sequence[str]) -> None:
        super().__init__(console)
        self._names = names
        self._states = [PanelState() for _ in names]
        self._number = 0
        self._state = self._states[0]

    def take(self, number: int, event: events.Event) -> None:
        """Take up an event of a run.

        Args:
            number: which run it is.
            event: the event.
        """
        self._states[number].absorb(event)
        if not self._is_closed:
            self._draw(final=False)

    def _answer(self, key: str) -> None:
        if key == "n":
            self._number = (self._number + 1) % len(self._states)
            self._state = self._states[self._number]
            self._redraw()
        else:
            super()._answer(key)

    def _frame(self) -> RenderableType:
        rows = [self._row(number) for number in range(len(self._names))]
        # the panel has at least half of the terminal
        room = self._console.height - 1
        rows = rows[: max(1, room // 2)]
        return Group(*rows, build_frame(self._state, self._console, self._width, room - len(rows)))

    def _row(self, number: int) -> Text:
        """A run in one line: how far it is, its losses, its worst word."""
        state, is_shown = self._states[number], number == self._number
        latest = state.latest
        parts = [
            f"{'▶' if is_shown else ' '} {fitted(visible(self._names[number]), _NAME_COLUMNS)}"
        ]
        if latest.logged is not None:
            logged = latest.logged
            parts.append(f"{logged.step}/{logged.total_steps}  loss {logged.loss:.4f}")
            parts.append(f"left {duration(logged.seconds_left)}")
        if latest.best is not None:
            parts.append(f"best {latest.best.loss_nats:.4f} @{latest.best.step}")
        words = {word for _, word in state.vitals.rows} if state.vitals else set[str]()
        parts += [word for word in ("sick", "watch") if word in words][:1]
        style = "bold" if is_shown else ""
        return Text("  ".join(parts), style=style, no_wrap=True, overflow="ellipsis")
