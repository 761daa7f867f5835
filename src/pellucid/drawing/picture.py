"""A picture: rectangles, lines and words, each with its place on a grid of character cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Point: TypeAlias = tuple[int, int]
Writing: TypeAlias = Literal["name", "says", "count", "shape", "words"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rectangle:
    """A part's border; `kind` tells whether it is a frame, and whether it has parameters."""

    x: int
    y: int
    width: int
    height: int
    kind: Literal["frame", "holds", "plain", "words"]
    #: the text for a pointer and for screen readers
    description: str = ""

    @property
    def right(self) -> int:
        """Its last column."""
        return self.x + self.width - 1

    @property
    def bottom(self) -> int:
        """Its last row."""
        return self.y + self.height - 1


@dataclass(frozen=True, slots=True)
class Line:
    """Through points, each level with the next or straight below or above it.

    `head`: it ends in an arrow's head, just before its last point.
    """

    points: tuple[Point, ...]
    head: bool = False
    kind: Literal["flow", "residual", "tied", "encoded", "positions"] = "flow"


@dataclass(frozen=True, slots=True)
class Text:
    """One line of text and the cell in which it starts."""

    x: int
    y: int
    text: str
    kind: Writing
    #: whether it interrupts a line behind it
    covers_line: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything to draw, each frame before its content; `sums` are the (+)."""

    title: str
    sentence: str
    width: int
    height: int
    rectangles: tuple[Rectangle, ...]
    lines: tuple[Line, ...]
    texts: tuple[Text, ...]
    sums: tuple[Point, ...]
