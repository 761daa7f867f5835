"""A table of one training example: each token, its target, and the tokens that it sees.

    one example as it will be trained: row 1 of the first update
      place  token             learns            sees
      -- example 1 ------------------------------------------
          0  'Say'             –                 itself
          1  ' hi'             ' Hello'          0 to 1
             … 40 more like these …

The middle of a long stretch is folded, never a place where learning begins or ends.
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
#: Rows that stay at each end of a stretch of tokens that are all learnt, or all not.
_ENDS = 3
#: Most lines of a part; the middle of a longer one is folded whatever is learnt there.
_MAX_ROWS = 18
_NOT_LEARNT = "–"

Row = tuple[int, tuple[str, str | None, str]]


@dataclass(frozen=True, slots=True)
class _Folded:
    """Rows that are not shown, and how many of them are learnt."""

    rows: int
    learnt: int

    def __str__(self) -> str:
        learnt = {self.rows: "all", 0: "none"}.get(self.learnt, f"{self.learnt} of them")
        return f"… {self.rows} more, {learnt} learnt …"


def example_lines(example: events.Example, width: int = _WIDTH) -> list[str]:
    """The table, and a summary below it."""
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
    notes = [example.note and one_line(example.note)]
    if not example.note or any(target is not None for _, target, _ in example.rows):
        notes.insert(0, summary(example))
    for note in filter(None, notes):
        lines += [" " * _INDENT + line for line in folded(note, width - _INDENT)]
    return lines


def parts_of(example: events.Example) -> Iterator[tuple[str, list[Row]]]:
    """The named parts of an example with their rows; one part without a name if it has none."""
    rows = list(enumerate(example.rows))
    starts = list(example.begins) or [(0, "")]
    if starts[0][0] > 0:
        starts.insert(0, (0, ""))
    ends = [start for start, _ in starts[1:]] + [len(rows)]
    for (start, name), end in zip(starts, ends, strict=True):
        yield name, rows[start:end]


def folded_rows(rows: list[Row]) -> list[Row | _Folded]:
    """The rows of a part, with the middle of long stretches folded."""
    selected: list[Row] = []
    for _, group in groupby(rows, key=lambda row: row[1][1] is None):
        stretch = list(group)
        if len(stretch) > 2 * _ENDS + 1:
            stretch = stretch[:_ENDS] + stretch[-_ENDS:]
        selected += stretch
    if len(selected) > _MAX_ROWS:
        selected = selected[: _MAX_ROWS // 2] + selected[-_MAX_ROWS // 2 :]
    display_rows: list[Row | _Folded] = []
    next_place = rows[0][0] if rows else 0
    for row in selected:
        if row[0] > next_place:
            hidden = [candidate for candidate in rows if next_place <= candidate[0] < row[0]]
            display_rows.append(_Folded(len(hidden), sum(r[1][1] is not None for r in hidden)))
        display_rows.append(row)
        next_place = row[0] + 1
    return display_rows


def summary(example: events.Example) -> str:
    """How many of the tokens are learnt."""
    learnt = sum(target is not None for _, target, _ in example.rows)
    n = len(example.rows)
    share = f" ({100 * learnt / n:.0f}%)" if n else ""
    return f"{learnt} of {n} tokens are learnt{share}"


def _line(place: str, token: str, learnt: str, visible_range: str, text: int, width: int) -> str:
    cells = f"{place:>{_PLACE}}  {fitted(token, text)}  {fitted(learnt, text)}  "
    remaining_width = width - _INDENT - _PLACE - 2 * text - 6
    return (
        " " * _INDENT + cells + fitted(one_line(visible_range), max(remaining_width, 1))
    ).rstrip()


def _rule(name: str, columns: int) -> str:
    head = f"-- {name} "
    return fitted(head + "-" * max(0, columns - cell_len(head)), columns)
