"""A picture in characters: lines of boxes, or of plain ASCII."""

from __future__ import annotations

import textwrap
from itertools import pairwise

from pellucid.drawing.picture import Line, Picture, Point, Rectangle

_NORTH, _EAST, _SOUTH, _WEST = 1, 2, 4, 8
#: The character that reaches to these sides of its cell: none, north, east, north and east, ...
_UNICODE = " ╵╶└╷│┌├╴┘─┴┐┤┬┼"
_ASCII = " |-+||++-+-+++++"
_HEADS = {_NORTH: ("▲", "^"), _EAST: ("▶", ">"), _SOUTH: ("▼", "v"), _WEST: ("◀", "<")}
_DASHED = {"│": "╎", "─": "╌", "|": ":"}


def as_text(picture: Picture, *, ascii_only: bool = False) -> str:
    """The picture, one line of text per row; `ascii_only` for old terminals."""
    canvas = _Canvas(ascii_only=ascii_only)
    for rectangle in picture.rectangles:
        if rectangle.kind != "words":
            canvas.border(rectangle)
    for line in picture.lines:
        canvas.line(line)
    for text in picture.texts:
        canvas.write(text.x, text.y, text.text)
    for x, y in picture.sums:
        canvas.write(x - 1, y, "(+)")
    head = textwrap.wrap(f"{picture.title}: {picture.sentence}", picture.width)
    return "\n".join([*head, "", canvas.text(picture.height)])


class _Canvas:
    """The sides of each cell that lines reach, and the text over them."""

    def __init__(self, *, ascii_only: bool) -> None:
        self.ascii_only = ascii_only
        self.sides: dict[Point, int] = {}
        self.solid: set[Point] = set()
        self.characters: dict[Point, str] = {}

    def border(self, rectangle: Rectangle) -> None:
        x, y, right_edge, bottom = rectangle.x, rectangle.y, rectangle.right, rectangle.bottom
        self.line(Line(((x, y), (right_edge, y), (right_edge, bottom), (x, bottom), (x, y))))

    def line(self, line: Line) -> None:
        cells = list(_cells(line.points))
        for number, (cell, next_cell) in enumerate(pairwise(cells), start=2):
            side, opposite_side = _sides(cell, next_cell)
            self.sides[cell] = self.sides.get(cell, 0) | side
            if line.kind != "tied":
                self.solid |= {cell, next_cell}
            if line.head and number == len(cells):
                self.write(*cell, _HEADS[side][self.ascii_only])
            else:
                self.sides[next_cell] = self.sides.get(next_cell, 0) | opposite_side

    def write(self, x: int, y: int, text: str) -> None:
        for offset, character in enumerate(text):
            self.characters[x + offset, y] = character

    def text(self, height: int) -> str:
        width = 1 + max(x for x, _ in (*self.sides, *self.characters))
        rows = (
            "".join(self._character((x, y)) for x in range(width)).rstrip() for y in range(height)
        )
        return "\n".join(rows)

    def _character(self, cell: Point) -> str:
        if cell in self.characters:
            return self.characters[cell]
        character = (_ASCII if self.ascii_only else _UNICODE)[self.sides.get(cell, 0)]
        return character if cell in self.solid else _DASHED.get(character, character)


def _cells(points: tuple[Point, ...]) -> list[Point]:
    cells = [points[0]]
    for end in points[1:]:
        while cells[-1] != end:
            (x, y), (to_x, to_y) = cells[-1], end
            cells.append((x + _sign(to_x - x), y + _sign(to_y - y)))
    return cells


def _sides(cell: Point, neighbour: Point) -> tuple[int, int]:
    """The side of `cell` towards `neighbour`, and the side of `neighbour` towards `cell`."""
    if cell[0] == neighbour[0]:
        return (_SOUTH, _NORTH) if neighbour[1] > cell[1] else (_NORTH, _SOUTH)
    return (_EAST, _WEST) if neighbour[0] > cell[0] else (_WEST, _EAST)


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)
