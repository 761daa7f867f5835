"""The place of each part of a drawing.

Data flows down along a spine. A path past other parts has its own lane at their side.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from pellucid.drawing.elements import (
    Arrow,
    Box,
    Column,
    Drawing,
    Fork,
    Frame,
    Item,
    Link,
    SideBox,
    Sum,
    Words,
)
from pellucid.drawing.picture import Line, Picture, Point, Rectangle, Text, Writing

#: The width of a column of parts, and of its margins, which hold the lanes of links.
_COLUMN, _MARGIN = 72, 4
#: The least width of a box.
_NARROWEST = 30
#: The lane of each kind of link, from the left edge of a column.
_LANES = {"encoded": -4, "positions": -2, "tied": _COLUMN + 1}


@dataclass(frozen=True, slots=True)
class _Area:
    """The columns from `left` to `right`, without `right` itself, around a spine."""

    left: int
    right: int
    spine: int

    def shrink(self, left_margin: int, right_margin: int) -> _Area:
        return _Area(self.left + left_margin, self.right - right_margin, self.spine)


def place(drawing: Drawing, *, side_by_side: bool = False) -> Picture:
    """The drawing on a grid, its columns one below the other or side by side."""
    canvas = _Canvas()
    lefts: list[int] = []
    bottoms: list[int] = []
    for column in drawing.columns:
        step = _MARGIN + _COLUMN + _MARGIN
        left_edge = _MARGIN + (len(lefts) * step if side_by_side else 0)
        top = 0 if side_by_side or not bottoms else bottoms[-1] + 1
        area = _Area(left_edge, left_edge + _COLUMN, left_edge + _COLUMN // 2)
        bottoms.append(canvas.column(column, area, top))
        lefts.append(left_edge)
    for link in drawing.links:
        canvas.link(link, lefts, side_by_side=side_by_side)
    return Picture(
        title=drawing.title,
        sentence=drawing.sentence,
        width=max(lefts) + _COLUMN + _MARGIN,
        height=max(bottoms),
        rectangles=tuple(canvas.rectangles),
        lines=tuple(canvas.lines),
        texts=tuple(canvas.texts),
        sums=tuple(canvas.sums),
    )


class _Canvas:
    """The picture so far. Every method draws from the row `top` and returns the next free row."""

    def __init__(self) -> None:
        self.rectangles: list[Rectangle] = []
        self.lines: list[Line] = []
        self.texts: list[Text] = []
        self.sums: list[Point] = []
        self.boxes_by_key: dict[str, list[Rectangle]] = {}

    def column(self, column: Column, area: _Area, top: int, *, ends_in_head: bool = False) -> int:
        """Items one below the other; `ends_in_head`: whether the last arrow has a head."""
        for index, item in enumerate(column):
            follows = column[index + 1] if index + 1 < len(column) else None
            if isinstance(item, Arrow):
                headed = ends_in_head if follows is None else isinstance(follows, Box | Words)
                top = self.arrow(item, area, top, head=headed)
            else:
                top = self.item(item, area, top)
        return top

    def item(self, item: Item, area: _Area, top: int) -> int:
        match item:
            case Box():
                return self.box(item, area, top)
            case Arrow():
                return self.arrow(item, area, top, head=False)
            case Words():
                return self.words(item, area, top)
            case Fork():
                return self.fork(item, area, top)
            case Sum():
                return self.sum(item, area, top)
            case Frame():
                return self.frame(item, area, top)
            case SideBox():
                aside_area = replace(
                    area, right=area.spine - 2, spine=(area.left + area.spine) // 2
                )
                bottom = self.box(replace(item.box, wide=True), aside_area, top)
                self.lines.append(Line(((area.spine, top), (area.spine, bottom))))
                return bottom
            case _:
                assert_never(item)

    def arrow(self, arrow: Arrow, area: _Area, top: int, *, head: bool) -> int:
        lower_edge = top + self.shape(arrow, area, top)
        self.lines.append(Line(((area.spine, top - 1), (area.spine, lower_edge)), head))
        return lower_edge

    def shape(self, arrow: Arrow, area: _Area, top: int) -> int:
        """The label of an arrow, in as many rows as it needs; returns their number."""
        lines = textwrap.wrap(arrow.shape, max(area.right - area.spine - 2, 1))
        for row, line in enumerate(lines, start=top):
            self.text(area.spine + 2, row, line, "shape")
        return max(len(lines), 1)

    def words(self, words: Words, area: _Area, top: int) -> int:
        x = area.spine - len(words.text) // 2
        self.rectangles.append(
            Rectangle(x=x - 1, y=top, width=len(words.text) + 2, height=1, kind="words")
        )
        if words.key:
            self.boxes_by_key.setdefault(words.key, []).append(self.rectangles[-1])
        self.text(x, top, words.text, "words")
        return top + 1

    def box(self, box: Box, area: _Area, top: int) -> int:
        count = f"{box.parameters:,}" if box.parameters else ""
        room = area.right - area.left - 4
        lines = [line for text in box.lines for line in textwrap.wrap(text, room)]
        names = textwrap.wrap(box.name, room)
        side_by_side = len(names[-1]) + 2 + len(count) <= room
        width = area.right - area.left
        if not box.wide:
            text_width = max(len(names[-1]) + (2 + len(count) if count else 0), *map(len, lines), 0)
            width = min(width, max(text_width + 4, _NARROWEST))
        x = min(max(area.left, area.spine - width // 2), area.right - width)
        height = len(names) + len(lines) + 2 + (not side_by_side)
        kind = "holds" if box.parameters else "plain"
        self.border(box, Rectangle(x=x, y=top, width=width, height=height, kind=kind))
        row = top + 1
        for name in names:
            self.text(x + 2, row, name, "name")
            row += 1
        count_row = row - 1 if side_by_side else row
        self.text(x + width - 2 - len(count), count_row, count, "count")
        for line in lines:
            row += 1
            self.text(x + 2, row - 1 + (not side_by_side), line, "says")
        return top + height

    def frame(self, frame: Frame, area: _Area, top: int) -> int:
        part = frame.part
        place = len(self.rectangles)
        self.text(area.left + 2, top, f" {part.name} ", "name", covers_line=True)
        label = frame.label or (f"{part.parameters:,}" if part.parameters else "")
        if label:
            self.text(area.right - 4 - len(label), top, f" {label} ", "count", covers_line=True)
        lines = [
            line for text in part.lines for line in textwrap.wrap(text, area.spine - area.left - 3)
        ]
        for row, line in enumerate(lines, start=top + 1):
            self.text(area.left + 2, row, line, "says")
        content_top = top + 1 + len(lines)
        if lines:
            self.lines.append(Line(((area.spine, top), (area.spine, content_top))))
        bottom = self.column(frame.content, area.shrink(2, 2), content_top)
        width, height = area.right - area.left, bottom + 1 - top
        rectangle = Rectangle(x=area.left, y=top, width=width, height=height, kind="frame")
        self.border(part, rectangle, place)
        return bottom + 1

    def fork(self, fork: Fork, area: _Area, top: int) -> int:
        areas = _divide_area(fork, area)
        bottoms: list[int] = []
        for index, (branch, part) in enumerate(zip(fork.branches, areas, strict=True)):
            if index >= fork.n_outside:
                turns = ((area.spine, top), (part.spine, top))
                self.lines.append(Line(((area.spine, top - 1), *turns, (part.spine, top + 1))))
            ends = isinstance(branch[-1], Arrow)
            bottoms.append(self.column(branch[:-1] if ends else branch, part, top + 1))
        bottom = lower_edge = max(bottoms)
        branch_ends = zip(fork.branches, areas, bottoms, strict=True)
        joined = [
            (last, part, row) for (*_, last), part, row in branch_ends if isinstance(last, Arrow)
        ]
        for last, part, _ in joined:
            lower_edge = max(lower_edge, bottom + self.shape(last, part, bottom))
        for _, part, row in joined:
            self.lines.append(Line(((part.spine, row - 1), (part.spine, lower_edge)), head=True))
        return lower_edge

    def sum(self, sum: Sum, area: _Area, top: int) -> int:
        is_forked = len(sum.branches) > 1
        spine, lane, return_lane = area.spine, area.right - 2, area.left + 1
        inner = area.shrink(4 if is_forked else 0, 4)
        branch_ends: list[Point] = []
        row = top
        for branch in sum.branches[:-1]:
            row = self.column(branch[:-1], inner, row + 1)
            branch_ends.append((spine, row))
            label = branch[-1]
            row += self.shape(label, inner, row) - 1 if isinstance(label, Arrow) else 0
            self.lines.append(Line(((lane, row + 1), (spine, row + 1), (spine, row + 2))))
            row += 1
        bottom = self.column(sum.branches[-1], inner, row + 1, ends_in_head=True)
        for x, y in branch_ends:
            points = (
                (x, y - 1),
                (x, y),
                (return_lane, y),
                (return_lane, bottom),
                (spine - 1, bottom),
            )
            self.lines.append(Line(points, head=True))
        self.lines.append(Line(((spine, top - 1), (spine, top + 1))))
        detour = ((spine, top), (lane, top), (lane, bottom), (spine + 1, bottom))
        self.lines.append(Line(detour, head=True, kind="residual"))
        if sum.carried:
            self.text(
                lane - 3 - len(sum.carried), bottom, f" {sum.carried} ", "shape", covers_line=True
            )
        self.sums.append((spine, bottom))
        return bottom + 1

    def link(self, link: Link, lefts: Sequence[int], *, side_by_side: bool) -> None:
        """From a part's side to a lane, along it, and into the side of another part."""
        (start,) = self.boxes_by_key[link.start]
        for end in self.boxes_by_key.get(link.end, ()):
            column_left = max(column_left for column_left in lefts if column_left <= end.x)
            lane = column_left + _LANES[link.kind]
            a = start.x if lane < start.x else start.right
            b = end.x if lane < end.x else end.right
            row, end_row = start.y + start.height // 2, end.y + end.height // 2
            self.lines.append(
                Line(
                    ((a, row), (lane, row), (lane, end_row), (b, end_row)),
                    head=True,
                    kind=link.kind,
                )
            )

    def border(self, part: Box, rectangle: Rectangle, place: int | None = None) -> None:
        rectangle = replace(rectangle, description=_describe(part))
        self.rectangles.insert(len(self.rectangles) if place is None else place, rectangle)
        if part.key:
            self.boxes_by_key.setdefault(part.key, []).append(rectangle)

    def text(self, x: int, y: int, text: str, kind: Writing, *, covers_line: bool = False) -> None:
        if text:
            self.texts.append(Text(x, y, text, kind, covers_line))


def _describe(part: Box) -> str:
    description = "; ".join((part.name, *part.lines))
    if not part.parameters:
        return description
    total = part.parameters * part.times
    if part.times == 1:
        return f"{description}: {total:,} parameters = {part.formula}"
    return f"{description}: {part.parameters:,} parameters each, {total:,} in {part.times}"


def _divide_area(fork: Fork, area: _Area) -> list[_Area]:
    """The area of each branch, in proportion to its number of parallel paths."""
    shares = [_count_paths(branch) for branch in fork.branches]
    room = area.right - area.left + 1
    areas: list[_Area] = []
    offset = 0
    for share in shares:
        left_edge = area.left + room * offset // sum(shares)
        offset += share
        right_edge = area.left + room * offset // sum(shares) - 1
        middle = (left_edge + right_edge) // 2
        is_near = abs(area.spine - middle) <= 4
        areas.append(_Area(left_edge, right_edge, area.spine if is_near else middle))
    return areas


def _count_paths(column: Column) -> int:
    return max((len(item.branches) for item in column if isinstance(item, Fork)), default=1)
