"""One row as token ids, or why it is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from pellucid.data.table_rows import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """What one row became: its columns of whole numbers by name, of any length.

    `group` is the text by which examples are parted, so that none repeats on both sides;
    `truncated`: something did not fit into the window; `ends`: its answer comes to an end, which
    is learned; `kept`: the whole row as JSON, where somebody asks for it later;
    `classes`: the numbers of those that its label names.
    """

    ids: Mapping[str, list[int]]
    group: str
    row: int
    truncated: bool = False
    ends: bool = True
    kept: str | None = None
    classes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a row is left out."""

    reason: str


class Form(Protocol):
    """How rows of one kind become examples."""

    @property
    def choices(self) -> list[str]:
        """What was chosen, in words to show."""
        ...

    def encode(self, row: Row) -> Example | Refusal:
        """The row as an example, or why it is left out.

        Raises:
            TextError: the row is not what it should be, and somebody has to mend it.
        """
        ...
