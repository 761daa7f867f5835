"""A run as one live panel: a curve, numbers, vital signs, and a sample of the fixed sentence."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from rich.console import Console, Group, RenderableType
from rich.control import Control
from rich.live import Live
from rich.segment import ControlType
from rich.text import Text

from pellucid.display.example import example_lines
from pellucid.display.keys import Keys
from pellucid.display.panel_frame import PanelState, build_frame
from pellucid.display.plain import lines_of
from pellucid.display.terminal_text import folded, visible
from pellucid.training import events

#: Where the value of a fact begins, in the lines above the panel.
_FACT_COLUMNS = 15
#: A drawing takes at most one part in so many of the time.
_DRAW_SHARE = 25
#: Seconds between two looks at the keys while a run is paused.
_PAUSE_SECONDS = 0.2
_ANSWERS = {"s": "saving after this step", "e": "a sample after this step", "p": ""}
_FINISHING = "finishing this step, then saving; once more to stop now"


def _no_stop() -> bool:
    return False


class Panel:
    """An observer that keeps one panel on a terminal."""

    seconds_between = 0.25

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._passing: Live | None = None
        self._draw_time = self._draw_seconds = 0.0
        self._state = PanelState()
        self._size = console.size
        self._keys = Keys()
        self._stop_requested = _no_stop
        self._is_paused = False
        self._actions: dict[str, Callable[[], None] | None] = {}
        self._is_closed = False

    def heed(
        self,
        stop_requested: Callable[[], bool],
        *,
        save: Callable[[], None] | None = None,
        sample: Callable[[], None] | None = None,
        can_pause: bool = False,
    ) -> None:
        """Connect the panel with the training that it shows.

        Args:
            stop_requested: says whether the user pressed Ctrl-C, which is answered on stderr.
            save: asks for a checkpoint after this update.
            sample: asks for a sample after this update.
            can_pause: whether the training may wait in the panel.
        """
        self._stop_requested = stop_requested
        self._actions = {"s": save, "e": sample, "p": self._turn_pause if can_pause else None}

    def recall(self, happened: Iterable[events.Event]) -> None:
        """Take up what happened before a run was resumed: its title, its curve, its best.

        Args:
            happened: the events until then.
        """
        for event in happened:
            self._state.absorb(event)

    def __call__(self, event: events.Event) -> None:
        """Show an event."""
        if self._is_closed:
            return
        try:
            self._show_event(event)
        except OSError:  # the terminal was closed; the run continues
            self._is_closed = True

    def close(self) -> None:
        """Leave the last panel on the terminal."""
        if not self._is_closed:
            with suppress(OSError):
                self._close()

    def tick(self) -> None:
        """Answer keys, and follow the size of the terminal, while nothing happens."""
        if not self._is_closed and self._live is not None:
            self._answer_keys()
            if self._console.size != self._size:
                self._redraw()

    def _show_event(self, event: events.Event) -> None:
        self._absorb_answer()
        if not (isinstance(event, events.Preparing) and event.fleeting):
            self._end_passing()
        self._state.absorb(event)
        match event:
            case events.Preparing():
                self._prepare(event)
                return
            case events.Example():
                self._show_example(event)
                return
            case events.Started() | events.Resumed() | events.Drifted() | events.Noticed():
                for line in lines_of(event):
                    for part in self._folded(line):
                        self._console.print(Text(part), soft_wrap=True)
            case events.Interrupted() | events.StoppedNonFinite() | events.Finished():
                self._state.note = lines_of(event)[0]
            case events.CheckpointSaved():
                self._state.note = visible(f"saved {event.path}")
            case events.StepFinished():
                self.tick()
                self._wait_while_paused(event.step)
                return
            case _:
                pass
        self._draw(final=isinstance(event, events.Finished | events.Interrupted))

    def _answer_keys(self) -> None:
        """Do what each pressed key asks for."""
        for key in self._keys.pressed():
            self._answer(key.lower())

    def _answer(self, key: str) -> None:
        state, curves = self._state, self._state.curves
        match key:
            case "c":
                curves.show_next()
            case "x":
                curves.change_axis()
            case "l":
                curves.change_scale()
            case "h" | "?":
                state.shows_help = not state.shows_help
            case "s" | "e" | "p":
                action = self._actions.get(key)
                if action is None:
                    state.note = f"key {key}: only where one process trains, in its terminal"
                else:
                    state.note = _ANSWERS[key]
                    action()
            case _:
                return
        if self._live is not None:
            self._redraw()

    def _turn_pause(self) -> None:
        self._is_paused = not self._is_paused

    def _wait_while_paused(self, step: int) -> None:
        if not self._is_paused or self._live is None:
            return
        self._state.note = f"paused after step {step}: p continues"
        self._redraw()
        while self._is_paused and not self._stop_requested():
            for key in self._keys.pressed(_PAUSE_SECONDS):
                self._answer(key.lower())
            if self._console.size != self._size:
                self._redraw()
        self._is_paused = False
        self._state.note = ""

    def _close(self) -> None:
        self._keys.close()
        self._end_passing()
        if self._live is not None:
            self._absorb_answer()
            self._live.update(self._frame(), refresh=True)
            self._live.stop()
            self._live = None

    def _prepare(self, event: events.Preparing) -> None:
        line = Text(lines_of(event)[0], style="dim")
        if not (event.fleeting and self._console.is_terminal):
            self._console.print(line)
            return
        if self._passing is None:
            self._passing = Live(console=self._console, auto_refresh=False, transient=True)
            self._passing.start()
        self._passing.update(line, refresh=True)

    def _show_example(self, event: events.Example) -> None:
        for line in example_lines(event, self._console.width):
            self._console.print(Text(visible(line)), soft_wrap=True)

    def _end_passing(self) -> None:
        """Remove the line that showed progress."""
        if self._passing is not None:
            self._passing.stop()
            self._passing = None

    def _draw(self, *, final: bool) -> None:
        if self._state.latest.logged is None and self._state.sampled is None:
            return
        moment = time.monotonic()
        # by time and not by step; a large panel costs more, so it is drawn less often
        pause = max(self.seconds_between, _DRAW_SHARE * self._draw_seconds)
        if final or moment - self._draw_time >= pause:
            self._redraw()
            self._draw_time = moment
            self._draw_seconds = time.monotonic() - moment

    def _redraw(self) -> None:
        if self._live is not None and self._console.size != self._size:
            # the terminal has moved our lines: the cursor cannot find them again
            self._live.stop()
            self._live = None
            self._console.clear()
        if self._live is None:
            self._size = self._console.size
            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()
            self._keys.take()
        # Keep the cursor below the panel. A terminal writes ^C at the cursor: at the end of a full
        # line that would begin a new line, and the next panel would be one line too low.
        self._live.update(Group(self._frame(), Text("")), refresh=True)

    def _folded(self, line: str) -> list[str]:
        """A line that fits; a command or path that you may copy stays in one piece."""
        width = self._console.width - _FACT_COLUMNS
        head, value = line[:_FACT_COLUMNS], line[_FACT_COLUMNS:]
        to_copy = head.strip() in ("folder", "to resume") or not head.startswith("  ")
        if to_copy or width < _FACT_COLUMNS:
            return [line]
        first, *following = folded(value, width) or [""]
        return [
            head + first,
            *(" " * _FACT_COLUMNS + following_line for following_line in following),
        ]

    def _absorb_answer(self) -> None:
        """Move the answer to Ctrl-C from below the panel into the panel, once.

        The signal handler wrote the answer between two line ends. If they stayed, the next panel
        would be that much too low and cover half of this one.
        """
        if self._live is None or not self._stop_requested():
            return
        self._stop_requested = _no_stop
        self._state.note = _FINISHING
        if sys.stderr.isatty():
            rows = self._answer_rows
            erase, up = (ControlType.ERASE_IN_LINE, 2), (ControlType.CURSOR_UP, 1)
            self._console.control(Control(ControlType.CARRIAGE_RETURN, *[erase, up] * rows))

    @property
    def _answer_rows(self) -> int:
        """The lines of the answer to Ctrl-C."""
        return 1 + math.ceil(len(_FINISHING) / self._console.width)

    @property
    def _room(self) -> int | None:
        """The height for the panel in lines: below it are the cursor and the answer to Ctrl-C.

        Without that room the answer would scroll the panel's top away, out of reach.
        """
        return self._console.height - 1 - self._answer_rows

    @property
    def _width(self) -> int:
        return self._console.width

    def _frame(self) -> RenderableType:
        """The whole panel; on a low terminal without its less important parts."""
        return build_frame(self._state, self._console, self._width, self._room)
