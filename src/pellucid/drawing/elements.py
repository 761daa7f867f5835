"""What a drawing is made of: boxes, frames and arrows, before anything has a place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A part: its name, what it does, and its parameters.

    `times`: how often the model has it; `formula`: of the parameters of all of them together.
    `wide`: as wide as what flows into it. `key`: what links call it.
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
    """The way from one part to the next, and the shape of what goes along."""

    shape: str = ""


@dataclass(frozen=True, slots=True)
class Words:
    """What goes in or comes out: it is no part."""

    text: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class Fork:
    """Ways that all start from the same state; the first `n_outside` of them start elsewhere."""

    branches: tuple[Column, ...]
    n_outside: int = 0


@dataclass(frozen=True, slots=True)
class Sum:
    """x and what each branch makes of it, added; `carried` says what happens to x on its way."""

    branches: tuple[Column, ...]
    carried: str = ""


@dataclass(frozen=True, slots=True)
class Frame:
    """A part that is drawn with what is inside it; `part` has its name and its own parameters."""

    part: Box
    content: Column
    #: stands in the frame's upper right
    label: str = ""


@dataclass(frozen=True, slots=True)
class SideBox:
    """A part beside the way, for others to look at."""

    box: Box


Item: TypeAlias = Box | Arrow | Words | Fork | Sum | Frame | SideBox
Column: TypeAlias = tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Link:
    """A line from one part to all parts called `end`, past everything between.

    "tied": they share a matrix. "encoded": what an encoder made. "positions": where tokens stand.
    """

    kind: Literal["tied", "encoded", "positions"]
    start: str
    end: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """A title and a sentence, columns of parts, and the links between them."""

    title: str
    sentence: str
    columns: tuple[Column, ...]
    links: tuple[Link, ...] = field(default=())


def boxes(column: Column) -> Iterator[Box]:
    """Every part of a column in the order of the drawing, a frame before what is inside it."""
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
