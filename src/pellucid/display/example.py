"""One example as it will be trained, as a table: each token, what is learnt there, what it sees.

    one example as it will be trained: row 1 of the first update
      place  token             learns            sees
      -- example 1 ------------------------------------------
          0  'Say'             –                 itself
          1  ' hi'             ' Hello'          0 to 1
             … 40 more like these …

Long stretches are folded in their middle; where learning begins and ends, nothing is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from rich.cells import cell_len

from pellucid.display.terminal_text import fitted, folded, one_line
from pellucid.training import events

_PLACE, _TEXT, _INDENT = 5, 20, 2
_WIDTH = 80
#: What stays of a stretch of tokens that are all learnt, or all not, at each of its ends.
_ENDS = 3
#: No part has more lines; where it would, its middle is folded whatever is learnt there.
_MAX_ROWS = 18
_NOT_LEARNT = "–"

Row = tuple[int, tuple[str, str | None, str]]


@dataclass(frozen=True, slots=True)
class _Folded:
    """Rows that are left out, and how many of them are learnt."""

    rows: int
    learnt: int

    def __str__(self) -> str:
        return f"… {self.rows} more, {_of_them(self.learnt, self.rows)} learnt …"


def example_lines(example: events.Example, width: int = _WIDTH) -> list[str]:
    """The table, and below it what it comes to."""
    width = min(width, _WIDTH)
    text = min(_TEXT, max(6, (width - _INDENT - _PLACE - 6) // 3))
    lines = [
        *folded(f"one example as it will be trained: {one_line(example.title)}", width),
        _line("place", "token", "learns", "sees", text, width),
    ]
    for name, rows in parts_of(example):
        if name:
            lines.append(" " * _INDENT + _rule(one_line(name), width - _INDENT))
        for row in folded_rows(rows):
            if isinstance(row, _Folded):
                lines.append(" " * (_INDENT + _PLACE + 2) + str(row))
            else:
                place, (token, target, visible_range) = row
                learnt = _NOT_LEARNT if target is None else repr(target)
                lines.append(_line(str(place), repr(token), learnt, visible_range, text, width))
    for line in (*_summary(example, width), *_note(example, width)):
        lines.append(" " * _INDENT + line)
    return lines


def parts_of(example: events.Example) -> Iterator[tuple[str, list[Row]]]:
    """The named parts of an example with their rows; one without a name where there is none."""
    rows = list(enumerate(example.rows))
    starts = list(example.begins) or [(0, "")]
    if starts[0][0] > 0:
        starts.insert(0, (0, ""))
    ends = [start for start, _ in starts[1:]] + [len(rows)]
    for (start, name), end in zip(starts, ends, strict=True):
        yield name, rows[start:end]


def folded_rows(rows: list[Row]) -> list[Row | _Folded]:
    """The rows of a part, long stretches folded in their middle."""
    selected: list[Row] = []
    for _, alike in groupby(rows, key=lambda row: row[1][1] is None):
        stretch = list(alike)
        if len(stretch) > 2 * _ENDS + 1:
            stretch = stretch[:_ENDS] + stretch[-_ENDS:]
        selected += stretch
    if len(selected) > _MAX_ROWS:
        selected = selected[: _MAX_ROWS // 2] + selected[-_MAX_ROWS // 2 :]
    display_rows: list[Row | _Folded] = []
    next_place = rows[0][0] if rows else 0
    for row in selected:
        if row[0] > next_place:
            left_out = [candidate for candidate in rows if next_place <= candidate[0] < row[0]]
            display_rows.append(_Folded(len(left_out), sum(r[1][1] is not None for r in left_out)))
        display_rows.append(row)
        next_place = row[0] + 1
    return display_rows


def summary(example: events.Example) -> str:
    """How many of the tokens are learnt."""
    learnt = sum(target is not None for _, target, _ in example.rows)
    n = len(example.rows)
    share = f" ({100 * learnt / n:.0f}%)" if n else ""
    return f"{learnt} of {n} tokens are learnt{share}"


def _summary(example: events.Example, width: int) -> list[str]:
    """Left out where no token is learnt, and the note says what is."""
    if example.note and all(target is None for _, target, _ in example.rows):
        return []
    return folded(summary(example), width - _INDENT)


def _note(example: events.Example, width: int) -> list[str]:
    return folded(one_line(example.note), width - _INDENT) if example.note else []


def _of_them(learnt: int, rows: int) -> str:
    return "all" if learnt == rows else "none" if learnt == 0 else f"{learnt} of them"


def _line(place: str, token: str, learnt: str, visible_range: str, text: int, width: int) -> str:
    cells = f"{place:>{_PLACE}}  {fitted(token, text)}  {fitted(learnt, text)}  "
    remaining_width = width - _INDENT - _PLACE - 2 * text - 6
    return (
        " " * _INDENT + cells + fitted(one_line(visible_range), max(remaining_width, 1))
    ).rstrip()


def _rule(name: str, columns: int) -> str:
    head = f"-- {name} "
    return fitted(head + "-" * max(0, columns - cell_len(head)), columns)
