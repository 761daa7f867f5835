"""A row as an example of token ids, or the reason why it is skipped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from pellucid.data.table_rows import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One row as columns of whole numbers.

    Attributes:
        ids: the numbers of each column, of any length.
        group: examples of one group are on the same side of the split, so that none repeats.
        row: the number of the row.
        truncated: whether a part did not fit into the window.
        ends: whether the model learns where its answer ends.
        row_json: the whole row as JSON, for rewards that judge the answer.
        classes: the numbers of the classes in its label.
    """

    ids: Mapping[str, list[int]]
    group: str
    row: int
    truncated: bool = False
    ends: bool = True
    row_json: str | None = None
    classes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a row is skipped.

    Attributes:
        reason: in words.
    """

    reason: str


class Form(Protocol):
    """How rows of one kind become examples."""

    @property
    def choices(self) -> list[str]:
        """The columns and the template, as lines for people."""
        ...

    def encode(self, row: Row) -> Example | Refusal:
        """The row as an example, or why it is skipped.

        Raises:
            TextError: the row is malformed, and you have to correct it.
        """
        ...
