"""A run as one live panel: a curve, numbers, vital signs, the sentence that learns to speak."""

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
from pellucid.display.panel_metrics import Known, cells, column
from pellucid.display.plain import lines_of
from pellucid.display.terminal_text import folded, one_line, visible
from pellucid.display.vital_rows import in_short, row_lines
from pellucid.training import events

_WIDTH = 80
_CURVE_COLUMNS, _CURVE_ROWS = 34, 9
#: The longest line of numbers; what a narrow terminal has not is taken from the curve.
_NUMBERS_COLUMNS = 36
#: Two columns of border, two of padding, two between curve and numbers.
_FRAME_COLUMNS = 6
#: Where the value of a fact begins, in the lines above the panel.
_FACT_COLUMNS = 15
#: What a low terminal goes without, one after the other: blank lines; where the sentence began, and
#: all of why a word is not calm but a line; all of the signs but their words; the sentence; the
#: cells of numbers.
_AIRY, _DENSE, _TERSE, _WORDS_ALONE, _MUTE, _BARE = range(6)

_FINISHING = "finishing this step, then saving; once more to stop now"


def _no() -> bool:
    return False


class Panel:
    """An observer that keeps one panel on a terminal."""

    seconds_between = 0.25

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._passing: Live | None = None
        self._drawn = 0.0
        self._losses = History()
        self._known = Known()
        self._first: events.Sampled | None = None
        self._sampled: events.Sampled | None = None
        self._vitals: events.Vitals | None = None
        self._note = ""
        self._asked = _no
        self._gone = False

    def heed(self, asked: Callable[[], bool]) -> None:
        """Let `asked` tell whether the user asked the run to stop, and was answered on stderr."""
        self._asked = asked

    def __call__(self, event: events.Event) -> None:
        if self._gone:
            return
        try:
            self._take(event)
        except OSError:  # the terminal was closed; the run goes on
            self._gone = True

    def close(self) -> None:
        """Leave the last panel standing."""
        if not self._gone:
            with suppress(OSError):
                self._close()

    def _take(self, event: events.Event) -> None:
        self._take_back()
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
                    self._known.started = event
                for line in lines_of(event):
                    for part in self._folded(line):
                        self._console.print(Text(part), soft_wrap=True)
            case events.Interrupted() | events.StoppedNonFinite() | events.Finished():
                self._note = lines_of(event)[0]
            case events.Logged():
                self._known.before = self._known.logged.loss if self._known.logged else None
                self._losses.add(event.losses)
                self._known.logged = event
            case events.Evaluated():
                self._known.evaluated = event
                self._known.best = event if event.best else self._known.best
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
            self._take_back()
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
        """Take away the line that said how far the work had come."""
        if self._passing is not None:
            self._passing.stop()
            self._passing = None

    def _draw(self, *, final: bool) -> None:
        if self._known.logged is None and self._sampled is None:
            return
        moment = time.monotonic()
        # by time and not by step: a redraw costs about 2 ms whatever the speed of the run
        if final or moment - self._drawn >= self.seconds_between:
            self._redraw()
            self._drawn = moment

    def _redraw(self) -> None:
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()
        # The cursor waits below the panel: a terminal writes ^C where the cursor is, and at the end
        # of a full line that would begin a new one, and the next panel stand one line too low.
        self._live.update(Group(self._frame(), Text("")), refresh=True)

    def _folded(self, line: str) -> list[str]:
        """A line that fits; what is there to be copied, a command or a path, stays in one piece."""
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

    def _take_back(self) -> None:
        """Once, after the user asked to stop: what was said below the panel goes into the panel.

        The signal's handler wrote a line end, the words and another. Without this, the next panel
        would be drawn that much too low, over half of this one.
        """
        if self._live is None or not self._asked():
            return
        self._asked = _no
        self._note = _FINISHING
        if sys.stderr.isatty():
            rows = 1 + math.ceil(len(_FINISHING) / self._console.width)
            erase, up = (ControlType.ERASE_IN_LINE, 2), (ControlType.CURSOR_UP, 1)
            self._console.control(Control(ControlType.CARRIAGE_RETURN, *[erase, up] * rows))

    @property
    def _room(self) -> int | None:
        """How many lines there are for the panel, above the one where the cursor waits."""
        return self._console.height - 1

    def _frame(self) -> Frame:
        """All there is; on a low terminal without what can be missed most easily."""
        for spared in range(_AIRY, _BARE):
            frame = self._framed(spared)
            if self._room is None or self._lines(frame) <= self._room:
                return frame
        return self._framed(_BARE)

    def _lines(self, frame: Frame) -> int:
        return len(self._console.render_lines(frame, self._console.options, pad=False))

    def _framed(self, spared: int) -> Frame:
        width = min(_WIDTH, self._console.width)
        parts: list[list[RenderableType]] = [[self._body(width)]]
        below = cells(self._known, width - 4) if spared < _BARE else []
        parts.append([Text(line, overflow="ellipsis", no_wrap=True) for line in below])
        if self._vitals is not None:
            parts.append([*self._signs(self._vitals, width - 4, spared)])
        if self._sampled is not None and spared < _MUTE:
            first = self._first if spared < _TERSE else None
            parts.append([*_sentence(self._sampled, first)])
        if self._note:
            parts[-1].append(Text(self._note, style="dim", overflow="fold"))
        between: list[RenderableType] = [Text("")] if spared < _DENSE else []
        stacked = [part for part in parts if part]
        lines = [line for part in stacked[1:] for line in (*between, *part)]
        return Frame(
            Group(*stacked[0], *lines), title=self._title(), title_align="left", width=width
        )

    def _body(self, width: int) -> RenderableType:
        """The curve, where there is room for one, and the numbers beside it."""
        columns = min(_CURVE_COLUMNS, width - _NUMBERS_COLUMNS - _FRAME_COLUMNS)
        numbers = Text("\n".join(column(self._known)), overflow="ellipsis", no_wrap=True)
        body = Table.grid(padding=(0, 2))
        if columns < 8:  # too narrow for a shape to be seen
            body.add_row(numbers)
        else:
            curve = "\n".join(braille(self._losses.means, columns, _CURVE_ROWS))
            body.add_row(Text(curve, style="cyan"), numbers)
        return body

    @staticmethod
    def _signs(vitals: events.Vitals, columns: int, spared: int) -> list[Text]:
        if spared >= _WORDS_ALONE:
            return in_short(vitals, columns)
        return row_lines(vitals, columns, why_lines=2 if spared < _TERSE else 1)

    def _title(self) -> Text:
        started, logged = self._known.started, self._known.logged
        name = visible(started.name) if started else "run"
        if logged is not None:
            step, total = logged.step, logged.total_steps
        else:
            step, total = 0, started.total_steps if started else 0
        return Text.assemble((name, "bold"), f"  step {step}/{total or '–'}")


def _sentence(sampled: events.Sampled, first: events.Sampled | None) -> list[Text]:
    tokens = "  ".join(f"{token!r} {p:.2f}" for token, p in sampled.next_tokens)
    lines = [Text.assemble((f'"{visible(sampled.sentence)}"', "bold"), f" → {tokens}")]
    lines.append(_going_on(f"…{one_line(sampled.continuation)}", "green"))
    if first is not None and first.step != sampled.step:
        lines.append(_going_on(f"step {first.step}: …{one_line(first.continuation)}", "dim"))
    return lines


def _going_on(text: str, style: str) -> Text:
    return Text(text, style=style, overflow="ellipsis", no_wrap=True)
