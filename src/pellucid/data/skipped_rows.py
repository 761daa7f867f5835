"""Counts of rows: how many became examples, how many were skipped or cut, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pellucid.data.example import Example, Form, Refusal
from pellucid.data.table_rows import Row
from pellucid.errors import TextError

_COUNTERS = ("rows", "examples", "truncated", "endless", "tokens", "supervised")
#: For each reason to skip rows, the counts name so many of them.
_MAX_LOCATIONS = 5


@dataclass(slots=True)
class RowCounts:
    """Counts that grow while rows are encoded.

    Attributes:
        rows: that were read.
        examples: that were made of them.
        dropped: rows that were left out, by reason.
        first_dropped: the first such rows of each reason.
        truncated: examples with a part that did not fit into the window.
        endless: examples whose answer has no end for the model to learn.
        tokens: of all examples.
        supervised: tokens that are learnt.
        labels: how many examples each class has, by its number.
    """

    rows: int = 0
    examples: int = 0
    #: by reason: how many rows were skipped, and the first of them
    dropped: Counter[str] = field(default_factory=Counter[str])
    first_dropped: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    truncated: int = 0
    endless: int = 0
    #: all tokens, and how many of them the model predicts
    tokens: int = 0
    supervised: int = 0
    labels: Counter[int] = field(default_factory=Counter[int])

    def table(self) -> dict[str, Any]:
        """The counts as JSON."""
        return {
            "rows": self.rows,
            "examples": self.examples,
            "dropped": {
                reason: {"rows": n, "first": self.first_dropped[reason]}
                for reason, n in self.dropped.items()
            },
            "truncated": self.truncated,
            "endless": self.endless,
            "tokens": self.tokens,
            "supervised": self.supervised,
        }

    def as_stored(self) -> dict[str, Any]:
        """All counts as JSON, for `from_table`."""
        return {**self.table(), "labels": sorted(self.labels.items())}

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> RowCounts:
        """The counts that `as_stored` gave."""
        dropped: dict[str, Any] = table["dropped"]
        return cls(
            dropped=Counter({reason: value["rows"] for reason, value in dropped.items()}),
            first_dropped={reason: list(value["first"]) for reason, value in dropped.items()},
            labels=Counter(dict(table["labels"])),
            **{name: table[name] for name in _COUNTERS},
        )

    def lines(self, classes: Sequence[str] | None = None) -> list[str]:
        """The counts as lines for people, and the names in `classes` that no example has."""
        lines = [f"{self.rows:,} rows, {self.examples:,} examples, {self.tokens:,} tokens"]
        if self.supervised:
            share = self.supervised / self.tokens
            lines.append(f"{self.supervised:,} tokens ({share:.0%}) are to be predicted")
        for reason, n in self.dropped.items():
            ellipsis = ", ..." if n > _MAX_LOCATIONS else ""
            lines.append(
                f"dropped {n:,}: {reason} ({'; '.join(self.first_dropped[reason])}{ellipsis})"
            )
        if self.truncated:
            lines.append(f"truncated {self.truncated:,}: longer than the window")
        if self.endless:
            lines.append(f"{self.endless:,} answers have no end that is learned")
        for number, name in enumerate(classes or ()):
            if not self.labels[number]:
                lines.append(f"the class {name!r} has no example")
        return lines


def encode_rows(form: Form, rows: Iterable[Row], census: RowCounts) -> Iterator[Example]:
    """The examples of rows, in order.

    Args:
        form: makes an example of a row.
        rows: the rows.
        census: counts the rows and their examples.

    Raises:
        TextError: a row that you have to correct, or no example is left.
    """
    for row in rows:
        census.rows += 1
        example = form.encode(row)
        if isinstance(example, Refusal):
            census.dropped[example.reason] += 1
            locations = census.first_dropped.setdefault(example.reason, [])
            if len(locations) < _MAX_LOCATIONS:
                locations.append(row.location)
            continue
        _count(example, census)
        yield example
    if not census.examples:
        raise TextError("no example is left to learn from: " + "; ".join(census.lines()[1:]))


def _count(example: Example, census: RowCounts) -> None:
    census.examples += 1
    census.truncated += example.truncated
    census.endless += not example.ends
    for name, ids in example.ids.items():
        if name == "supervised":
            census.supervised += sum(ids)
        elif name == "label":
            census.labels.update(example.classes)
        else:
            census.tokens += len(ids)
            census.supervised += len(ids) if name in ("target", "chosen", "rejected") else 0
