"""The frame of a panel: it fills the terminal, and leaves out what has no room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console, Group, RenderableType
from rich.panel import Panel as Frame
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from pellucid.display.numbers import duration
from pellucid.display.panel_curves import Curves
from pellucid.display.panel_metrics import LatestEvents, cells, column
from pellucid.display.terminal_text import one_line, visible
from pellucid.display.vital_rows import row_lines, short_lines
from pellucid.training import events

#: The longest line of numbers; on a narrow terminal the curve has less room.
_NUMBERS_COLUMNS = 36
#: Two columns of border, two of padding, two between curve and numbers.
_FRAME_COLUMNS = 6
#: The lowest curve with axes, and the narrowest.
_CURVE_ROWS, _CURVE_COLUMNS = 5, 17
#: A low terminal drops one thing after another: blank lines; the first sample and all but one line
#: of each rule; all of the signs except their words; the sentence; the cells of numbers; all
#: numbers but the first four.
_AIRY, _DENSE, _TERSE, _WORDS_ALONE, _MUTE, _BARE, _LEAST = range(7)
_LEAST_NUMBERS = 4

HELP = (
    "c another curve   x over updates, terms or minutes   l linear or logarithmic",
    "s save now        e a sample now                     p pause or continue   h this help",
    "Ctrl-C saves and stops; a second one stops at once",
)


@dataclass(slots=True)
class PanelState:
    """All that a panel shows."""

    latest: LatestEvents = field(default_factory=LatestEvents)
    curves: Curves = field(default_factory=Curves)
    first: events.Sampled | None = None
    sampled: events.Sampled | None = None
    vitals: events.Vitals | None = None
    note: str = ""
    shows_help: bool = False

    def absorb(self, event: events.Event) -> None:
        """Take an event up."""
        latest = self.latest
        self.curves.absorb(event)
        match event:
            case events.Started():
                latest.started = event
            case events.Logged():
                latest.previous_loss = latest.logged.loss if latest.logged else None
                latest.logged = event
            case events.Evaluated():
                latest.evaluated = event
                latest.best = event if event.best else latest.best
            case events.Sampled():
                self.first = self.first or event
                self.sampled = event
            case events.Vitals():
                self.vitals = event
            case _:
                pass


def build_frame(state: PanelState, console: Console, width: int, room: int | None) -> Frame:
    """The whole panel, as high as its room.

    Args:
        state: what it shows.
        console: the terminal.
        width: its columns.
        room: its lines; None if it may be as high as it likes.
    """
    detail, spare = _AIRY, 0
    while room is not None:
        frame = _framed(state, width, detail, _blank(len(_numbers(state, detail))))
        spare = room - len(console.render_lines(frame, console.options, pad=False))
        if spare >= 0 or detail == _LEAST:
            break
        detail += 1
    rows = len(_numbers(state, detail)) + max(0, spare)
    return _framed(state, width, detail, _body(state, width, detail, rows))


def _blank(rows: int) -> RenderableType:
    return Text("\n" * (rows - 1))


def _framed(state: PanelState, width: int, detail: int, body: RenderableType) -> Frame:
    columns = width - 4
    parts: list[list[RenderableType]] = [[body]]
    cell_lines = cells(state.latest, columns) if detail < _BARE else []
    parts.append([Text(line, overflow="ellipsis", no_wrap=True) for line in cell_lines])
    if state.shows_help:
        parts.append([Text(line, overflow="ellipsis", no_wrap=True) for line in HELP])
    elif state.vitals is not None:
        parts.append([*_signs(state.vitals, columns, detail)])
    if state.sampled is not None and detail < _MUTE:
        first = state.first if detail < _TERSE else None
        parts.append([*_sentence(state.sampled, first)])
    parts.append([*_progress(state.latest, columns)])
    if state.note:
        folded = Text(state.note, style="dim", overflow="fold")
        parts[-1].append(_clipped_text(state.note, "dim") if detail == _LEAST else folded)
    blank_line: list[RenderableType] = [Text("")] if detail < _DENSE else []
    stacked = [part for part in parts if part]
    lines = [line for part in stacked[1:] for line in (*blank_line, *part)]
    return Frame(Group(*stacked[0], *lines), title=_title(state), title_align="left", width=width)


def _numbers(state: PanelState, detail: int) -> Sequence[str]:
    numbers = column(state.latest)
    return numbers[:_LEAST_NUMBERS] if detail == _LEAST else numbers


def _body(state: PanelState, width: int, detail: int, rows: int) -> RenderableType:
    """The curve, if there is room for one, and the numbers to its right."""
    columns = width - _NUMBERS_COLUMNS - _FRAME_COLUMNS
    numbers = Text("\n".join(_numbers(state, detail)), overflow="ellipsis", no_wrap=True)
    body = Table.grid(padding=(0, 2))
    if columns < _CURVE_COLUMNS:
        spare = rows - len(_numbers(state, detail))
        if spare < _CURVE_ROWS or width - 4 < _CURVE_COLUMNS:
            return numbers
        curve = state.curves.lines(width - 4, spare)
        return Group(numbers, *curve)
    curve = state.curves.lines(columns, rows) if rows >= _CURVE_ROWS else []
    body.add_column(width=columns)
    body.add_column()
    body.add_row(Group(*curve), numbers)
    return body


def _signs(vitals: events.Vitals, columns: int, detail: int) -> list[Text]:
    if detail >= _WORDS_ALONE:
        return short_lines(vitals, columns)
    return row_lines(vitals, columns, rule_lines=2 if detail < _TERSE else 1)


def _progress(latest: LatestEvents, columns: int) -> list[RenderableType]:
    """How far the run is, as a bar, and the time that is left."""
    logged = latest.logged
    if logged is None or not logged.total_steps:
        return []
    share = logged.step / logged.total_steps
    text = f"{share:.1%}   {duration(logged.seconds_left)} left"
    row = Table.grid(padding=(0, 2))
    bar = ProgressBar(total=1.0, completed=share, width=max(1, columns - 2 - len(text)))
    row.add_row(bar, Text(text, no_wrap=True))
    return [row]


def _title(state: PanelState) -> Text:
    started, logged = state.latest.started, state.latest.logged
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
