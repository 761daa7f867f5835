"""The elements of a drawing: boxes, frames and arrows, before they have places."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A part of the model.

    Attributes:
        name: Its name.
        lines: Its function, in lines.
        parameters: The parameters of one copy.
        times: How many copies the model has.
        formula: For the parameters of all copies.
        wide: Whether it is as wide as its inputs together.
        key: Its name in links.
    """

    name: str
    lines: tuple[str, ...] = ()
    parameters: int = 0
    times: int = 1
    formula: str = ""
    wide: bool = False
    key: str = ""


@dataclass(frozen=True, slots=True)
class Arrow:
    """The path from one part to the next, with the shape of its data."""

    shape: str = ""


@dataclass(frozen=True, slots=True)
class Words:
    """An input or output, which is no part."""

    text: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class Fork:
    """Branches from the same state; the first `n_outside` of them start elsewhere."""

    branches: tuple[Column, ...]
    n_outside: int = 0


@dataclass(frozen=True, slots=True)
class Sum:
    """The sum of x and each branch's output; `carried` labels x, if it is scaled."""

    branches: tuple[Column, ...]
    carried: str = ""


@dataclass(frozen=True, slots=True)
class Frame:
    """A part that is drawn with its content; `part` has its name and its own parameters."""

    part: Box
    content: Column
    #: at the upper right of the frame
    label: str = ""


@dataclass(frozen=True, slots=True)
class SideBox:
    """A part at the side, which others read."""

    box: Box


Item: TypeAlias = Box | Arrow | Words | Fork | Sum | Frame | SideBox
Column: TypeAlias = tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Link:
    """A line from one part to all parts with the key `end`, past everything between.

    "tied": they share a matrix. "encoded": the output of an encoder. "positions": of the tokens.
    """

    kind: Literal["tied", "encoded", "positions"]
    start: str
    end: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """A title and a sentence, columns of parts, and the links between them.

    Attributes:
        title: of the drawing.
        sentence: what it shows.
        columns: parts, from the left.
        links: arrows between parts.
    """

    title: str
    sentence: str
    columns: tuple[Column, ...]
    links: tuple[Link, ...] = field(default=())


def boxes(column: Column) -> Iterator[Box]:
    """Every part of a column in the order of the drawing, a frame before its content."""
    for item in column:
        match item:
            case Box():
                yield item
            case SideBox(box=box):
                yield box
            case Frame(part=part, content=content):
                yield part
                yield from boxes(content)
            case Fork(branches=branches) | Sum(branches=branches):
                for branch in branches:
                    yield from boxes(branch)
            case Arrow() | Words():
                pass
