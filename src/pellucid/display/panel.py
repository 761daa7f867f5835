"""A run as one live panel: a curve, numbers, vital signs, and a sample of the fixed sentence."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from rich.console import Console, Group, RenderableType
from rich.control import Control
from rich.live import Live
from rich.panel import Panel as Frame
from rich.segment import ControlType
from rich.table import Table
from rich.text import Text

from pellucid.display.curve import History, braille
from pellucid.display.example import example_lines
from pellucid.display.panel_metrics import LatestEvents, cells, column
from pellucid.display.plain import lines_of
from pellucid.display.terminal_text import folded, one_line, visible
from pellucid.display.vital_rows import row_lines, short_lines
from pellucid.training import events

_WIDTH = 80
_CURVE_COLUMNS, _CURVE_ROWS = 34, 9
#: The longest line of numbers; on a narrow terminal the curve has less room.
_NUMBERS_COLUMNS = 36
#: Two columns of border, two of padding, two between curve and numbers.
_FRAME_COLUMNS = 6
#: Where the value of a fact begins, in the lines above the panel.
_FACT_COLUMNS = 15
#: A low terminal drops one thing after another: blank lines; the first sample and all but one line
#: of each rule; all of the signs except their words; the sentence; the cells of numbers.
_AIRY, _DENSE, _TERSE, _WORDS_ALONE, _MUTE, _BARE = range(6)

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
        self._draw_time = 0.0
        self._losses = History()
        self._latest = LatestEvents()
        self._first: events.Sampled | None = None
        self._sampled: events.Sampled | None = None
        self._vitals: events.Vitals | None = None
        self._note = ""
        self._stop_requested = _no_stop
        self._is_closed = False

    def heed(self, stop_requested: Callable[[], bool]) -> None:
        """Use `stop_requested` to learn that the user pressed Ctrl-C, answered on stderr."""
        self._stop_requested = stop_requested

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

    def _show_event(self, event: events.Event) -> None:
        self._absorb_answer()
        if not (isinstance(event, events.Preparing) and event.fleeting):
            self._end_passing()
        match event:
            case events.Preparing():
                self._prepare(event)
                return
            case events.Example():
                self._show_example(event)
                return
            case events.Started() | events.Resumed() | events.Drifted() | events.Noticed():
                if isinstance(event, events.Started):
                    self._latest.started = event
                for line in lines_of(event):
                    for part in self._folded(line):
                        self._console.print(Text(part), soft_wrap=True)
            case events.Interrupted() | events.StoppedNonFinite() | events.Finished():
                self._note = lines_of(event)[0]
            case events.Logged():
                self._latest.previous_loss = (
                    self._latest.logged.loss if self._latest.logged else None
                )
                self._losses.add(event.losses)
                self._latest.logged = event
            case events.Evaluated():
                self._latest.evaluated = event
                self._latest.best = event if event.best else self._latest.best
            case events.Sampled():
                self._first = self._first or event
                self._sampled = event
            case events.CheckpointSaved():
                self._note = visible(f"saved {event.path}")
            case events.Vitals():
                self._vitals = event
            case events.StepFinished():
                return
        self._draw(final=isinstance(event, events.Finished | events.Interrupted))

    def _close(self) -> None:
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
        if self._latest.logged is None and self._sampled is None:
            return
        moment = time.monotonic()
        # by time and not by step: a redraw costs about 2 ms whatever the speed of the run
        if final or moment - self._draw_time >= self.seconds_between:
            self._redraw()
            self._draw_time = moment

    def _redraw(self) -> None:
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()
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
        self._note = _FINISHING
        if sys.stderr.isatty():
            rows = 1 + math.ceil(len(_FINISHING) / self._console.width)
            erase, up = (ControlType.ERASE_IN_LINE, 2), (ControlType.CURSOR_UP, 1)
            self._console.control(Control(ControlType.CARRIAGE_RETURN, *[erase, up] * rows))

    @property
    def _room(self) -> int | None:
        """The height for the panel in lines, above the line of the cursor."""
        return self._console.height - 1

    def _frame(self) -> Frame:
        """The whole panel; on a low terminal without its less important parts."""
        for detail in range(_AIRY, _BARE):
            frame = self._framed(detail)
            if self._room is None or self._lines(frame) <= self._room:
                return frame
        return self._framed(_BARE)

    def _lines(self, frame: Frame) -> int:
        return len(self._console.render_lines(frame, self._console.options, pad=False))

    def _framed(self, detail: int) -> Frame:
        width = min(_WIDTH, self._console.width)
        parts: list[list[RenderableType]] = [[self._body(width)]]
        cell_lines = cells(self._latest, width - 4) if detail < _BARE else []
        parts.append([Text(line, overflow="ellipsis", no_wrap=True) for line in cell_lines])
        if self._vitals is not None:
            parts.append([*self._signs(self._vitals, width - 4, detail)])
        if self._sampled is not None and detail < _MUTE:
            first = self._first if detail < _TERSE else None
            parts.append([*_sentence(self._sampled, first)])
        if self._note:
            parts[-1].append(Text(self._note, style="dim", overflow="fold"))
        blank_line: list[RenderableType] = [Text("")] if detail < _DENSE else []
        stacked = [part for part in parts if part]
        lines = [line for part in stacked[1:] for line in (*blank_line, *part)]
        return Frame(
            Group(*stacked[0], *lines), title=self._title(), title_align="left", width=width
        )

    def _body(self, width: int) -> RenderableType:
        """The curve, if there is room for one, and the numbers to its right."""
        columns = min(_CURVE_COLUMNS, width - _NUMBERS_COLUMNS - _FRAME_COLUMNS)
        numbers = Text("\n".join(column(self._latest)), overflow="ellipsis", no_wrap=True)
        body = Table.grid(padding=(0, 2))
        if columns < 8:  # too narrow to show a shape
            body.add_row(numbers)
        else:
            curve = "\n".join(braille(self._losses.averages, columns, _CURVE_ROWS))
            body.add_row(Text(curve, style="cyan"), numbers)
        return body

    @staticmethod
    def _signs(vitals: events.Vitals, columns: int, detail: int) -> list[Text]:
        if detail >= _WORDS_ALONE:
            return short_lines(vitals, columns)
        return row_lines(vitals, columns, rule_lines=2 if detail < _TERSE else 1)

    def _title(self) -> Text:
        started, logged = self._latest.started, self._latest.logged
        name = visible(started.name) if started else "run"
        if logged is not None:
            step, total = logged.step, logged.total_steps
        else:
            step, total = 0, started.total_steps if started else 0
        return Text.assemble((name, "bold"), f"  step {step}/{total or '–'}")


def _sentence(sampled: events.Sampled, first: events.Sampled | None) -> list[Text]:
    tokens = "  ".join(f"{token!r} {p:.2f}" for token, p in sampled.next_tokens)
    lines = [Text.assemble((f'"{visible(sampled.sentence)}"', "bold"), f" → {tokens}")]
    lines.append(_clipped_text(f"…{one_line(sampled.continuation)}", "green"))
    if first is not None and first.step != sampled.step:
        lines.append(_clipped_text(f"step {first.step}: …{one_line(first.continuation)}", "dim"))
    return lines


def _clipped_text(text: str, style: str) -> Text:
    return Text(text, style=style, overflow="ellipsis", no_wrap=True)
