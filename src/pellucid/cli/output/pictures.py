"""Pictures of a chapter in eighty columns: shade and digits, so that they read without colour."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from pellucid.display.terminal_text import fitted, visible
from pellucid.explain.chapter_types import Bars, Lines, Matrix, StaticPicture, Table, Tokens

WIDTH = 80
_LABEL = 12
#: More bars than this become numbers in columns; the largest number of lines of a picture.
_BARS, _LINES = 12, 18


@dataclass(frozen=True, slots=True)
class Ink:
    """The characters of a drawing: shades from empty to full, and steps of a curve."""

    shades: str
    steps: str
    full: str
    negative: str
    hidden: str


BLOCKS = Ink(shades=" ░▒▓█", steps="▁▂▃▄▅▆▇█", full="█", negative="▒", hidden="·")
ASCII = Ink(shades=" .:*#", steps="_.-=*#", full="#", negative="-", hidden=".")


def draw_picture(picture: StaticPicture, ink: Ink, row: int = 0, column: int = 0) -> list[str]:
    """The lines of a picture, below its title; a map is shown about `row` and `column`."""
    match picture:
        case Tokens():
            body = _tokens(picture, ink)
        case Matrix():
            body = _matrix(picture, ink, row, column)
        case Bars():
            body = _bars(picture, ink)
        case Table():
            body = _table(picture)
        case Lines():
            body = _curves(picture, ink)
    return [f"  {fitted(visible(picture.title), WIDTH - 2).rstrip()}", *body]


def number(x: float) -> str:
    """Four digits, and no more than nine characters."""
    if x == 0 or 1e-3 <= abs(x) < 1e5:
        return f"{x:.4f}" if abs(x) < 10 else f"{x:.2f}"
    return f"{x:.1e}"


def _tokens(picture: Tokens, ink: Ink) -> list[str]:
    """Cells in columns: place, token, id; and a number with its shade if the picture has values."""
    first = 1 if picture.values and len(picture.values) == len(picture.pieces) else 0
    largest = max((abs(x) for x in picture.values), default=0.0)
    cells: list[str] = []
    for place, (piece, token_id) in enumerate(zip(picture.pieces, picture.ids, strict=True)):
        end = f"{token_id}"
        if picture.values:
            x = picture.values[place]
            end = f"{_shade(x, largest, ink)}{x:.2f}"
        cells.append(f"{place + first:>4} {fitted(repr(piece), 12)} {end:>6} ")
    lines = _in_columns(cells)
    if len(lines) > _LINES:
        lines = [*lines[: _LINES - 1], f"  … {len(cells)} in all; --json has them"]
    return lines + ([f"    the number is in {picture.unit}"] if picture.unit else [])


def _matrix(picture: Matrix, ink: Ink, row: int, column: int) -> list[str]:
    """A shade and up to three digits for each cell; a dot for a hidden cell."""
    signed = picture.scale == "diverging"
    wide = 5 if signed else 4
    fits = (WIDTH - 2 - _LABEL) // wide
    start_column = _start(column - picture.first_column, len(picture.columns), fits)
    start_row = _start(row - picture.first_row, len(picture.rows), _LINES)
    columns = range(start_column, min(start_column + fits, len(picture.columns)))
    rows = range(start_row, min(start_row + _LINES, len(picture.rows)))
    magnitudes = [abs(x) for i in rows for j in columns if (x := picture.values[i][j]) is not None]
    largest = max(magnitudes, default=0.0)
    unit = _unit(largest, signed=signed)
    numbered = range(
        picture.first_column + start_column, picture.first_column + start_column + len(columns)
    )
    margin = " " * (2 + _LABEL)
    names = "".join(" " + fitted(_bare(picture.columns[j]), wide - 1) for j in columns)
    lines = [f"{margin}{names}".rstrip()]
    if picture.address:
        lines.insert(0, margin + "".join(f"{place:>{wide}}" for place in numbered))
    for i in rows:
        cells = "".join(_cell(picture.values[i][j], wide, largest, unit, ink) for j in columns)
        place = f"{i + picture.first_row:>3} " if picture.address else ""
        lines.append(f"  {fitted(place + _bare(picture.rows[i]), _LABEL)}{cells}".rstrip())
    notes = [f"cells in units of {unit:g}"]
    if len(columns) < len(picture.columns) or len(rows) < len(picture.rows):
        notes.append(f"a part of {len(picture.rows)} x {len(picture.columns)}")
    if picture.pooled:
        notes.append(picture.pooled)
    return [*lines, f"    {'; '.join(notes)}"]


def _cell(x: float | None, wide: int, largest: float, unit: float, ink: Ink) -> str:
    if x is None:
        return f"{ink.hidden:>{wide}}"
    return f"{_shade(x, largest, ink)}{round(x / unit):>{wide - 1}}"


def _unit(largest: float, *, signed: bool) -> float:
    """A power of ten in which the largest has two or three digits: shares are hundredths."""
    if largest <= 0 or not math.isfinite(largest):
        return 1.0
    limit = 999.4 if signed else 100.4
    return 10.0 ** math.ceil(math.log10(largest / limit))


def _bars(picture: Bars, ink: Ink) -> list[str]:
    largest = max((abs(x) for x in picture.values), default=0.0)
    pairs = list(zip(picture.names, picture.values, strict=True))
    if len(pairs) > _BARS and max(map(cell_len, picture.names)) <= 4:
        return _in_columns(
            [f"{name:>5} {_shade(x, largest, ink)}{x:>+8.3f}  " for name, x in pairs]
        )
    width = min(26, max((cell_len(visible(name)) for name in picture.names), default=0))
    lines = [_bar(name, x, largest, width, ink) for name, x in pairs[:_LINES]]
    if len(pairs) > _LINES:
        remainder = math.fsum(x for _, x in pairs[_LINES:])
        lines.append(
            f"    {len(pairs) - _LINES} more, together {number(remainder)}; --json has them"
        )
    if picture.rest is not None:
        lines.append(f"    all others together {number(picture.rest)}")
    return lines


def _bar(name: str, x: float, largest: float, width: int, ink: Ink) -> str:
    length = round(32 * abs(x) / largest) if largest > 0 else 0
    bar = (ink.full if x >= 0 else ink.negative) * length
    return f"    {fitted(visible(name), width)} {number(x):>10} {bar}".rstrip()


def _table(picture: Table) -> list[str]:
    rows = [tuple(_format_cell(cell) for cell in row) for row in picture.rows[:_LINES]]
    widths = [
        max(cell_len(text) for text in texts) for texts in zip(picture.columns, *rows, strict=True)
    ]
    room = WIDTH - 4 - 2 * (len(widths) - 1)
    while sum(widths) > room:  # the widest gives way
        widths[widths.index(max(widths))] -= 1
    lefts = [
        any(isinstance(row[i], str) for row in picture.rows) for i in range(len(picture.columns))
    ]
    lines = [_row(picture.columns, widths, lefts), *(_row(row, widths, lefts) for row in rows)]
    if len(picture.rows) > _LINES:
        lines.append(f"    … {len(picture.rows)} rows in all; --json has them")
    return lines


def _row(cells: Sequence[str], widths: Sequence[int], lefts: Sequence[bool]) -> str:
    parts: list[str] = []
    for cell, width, is_left in zip(cells, widths, lefts, strict=True):
        text = fitted(cell, width)
        parts.append(text if is_left else " " * (width - cell_len(text.rstrip())) + text.rstrip())
    return ("    " + "  ".join(parts)).rstrip()


def _curves(picture: Lines, ink: Ink) -> list[str]:
    lines: list[str] = []
    for name, series in zip(picture.names, picture.series, strict=True):
        lines.append(f"    {fitted(name, 8)} {draw_curve(series, ink, 56)}")
        lines.append(
            f"    {'':<8} from {number(series[0])} to {number(series[-1])}, "
            f"least {number(min(series))}, most {number(max(series))}"
        )
    return [*lines, f"    by {picture.x_unit}, {picture.x[0]:g} to {picture.x[-1]:g}"]


def draw_curve(series: Sequence[float], ink: Ink, width: int) -> str:
    """A mark for each value from the lowest to the highest step.

    If there are more values than `width`, each mark is a mean of neighbours.
    """
    low, span = min(series), max(series) - min(series) or 1.0
    patch = -(-len(series) // width)
    parts = (series[i : i + patch] for i in range(0, len(series), patch))
    averages = (math.fsum(part) / len(part) for part in parts)
    return "".join(ink.steps[round((x - low) / span * (len(ink.steps) - 1))] for x in averages)


def _in_columns(cells: Sequence[str]) -> list[str]:
    width = max(map(cell_len, cells), default=1)
    fits = max(1, (WIDTH - 2) // width)
    return [("  " + "".join(cells[i : i + fits])).rstrip() for i in range(0, len(cells), fits)]


def _start(selected: int, count: int, fits: int) -> int:
    """The first of `fits` places that include the selected one."""
    return max(0, min(selected - fits + 1, count - fits)) if selected >= fits else 0


def _shade(x: float, largest: float, ink: Ink) -> str:
    if not largest:
        return ink.shades[0]
    return ink.shades[math.ceil(min(1.0, abs(x) / largest) * (len(ink.shades) - 1) - 0.5)]


def _bare(text: str) -> str:
    return visible(text.strip() or "␠")


def _format_cell(cell: str | float | int) -> str:
    if isinstance(cell, str):
        return visible(cell)
    return f"{cell:,}" if isinstance(cell, int) else number(cell)
