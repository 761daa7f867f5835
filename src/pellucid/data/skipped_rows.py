"""The count of what became of rows: nothing is dropped or cut in silence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pellucid.data.example import Example, Form, Refusal
from pellucid.data.table_rows import Row
from pellucid.errors import TextError

_COUNTED = ("rows", "examples", "truncated", "endless", "tokens", "supervised")
#: So many rows are named of each reason for leaving them out.
_NAMED = 5


@dataclass(slots=True)
class RowCounts:
    """What was read, and what became of it; grows while rows are encoded."""

    rows: int = 0
    examples: int = 0
    #: by reason: how many rows were left out, and the first of them
    dropped: Counter[str] = field(default_factory=Counter[str])
    first_dropped: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    #: examples of which something did not fit into the window
    truncated: int = 0
    #: examples whose answer has no end that could be learned
    endless: int = 0
    #: how many tokens there are, and how many of them are to be predicted
    tokens: int = 0
    supervised: int = 0
    #: how many examples each class has, by its number
    labels: Counter[int] = field(default_factory=Counter[int])

    def table(self) -> dict[str, Any]:
        """The same as JSON can say it."""
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
        """All counts as JSON can say them, from which `from_table` makes them again."""
        return {**self.table(), "labels": sorted(self.labels.items())}

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> RowCounts:
        """The counts that `as_stored` gave."""
        dropped: dict[str, Any] = table["dropped"]
        return cls(
            dropped=Counter({reason: value["rows"] for reason, value in dropped.items()}),
            first_dropped={reason: list(value["first"]) for reason, value in dropped.items()},
            labels=Counter(dict(table["labels"])),
            **{name: table[name] for name in _COUNTED},
        )

    def lines(self, classes: Sequence[str] | None = None) -> list[str]:
        """The same in words; with the names of classes, also which of them no example has."""
        lines = [f"{self.rows:,} rows, {self.examples:,} examples, {self.tokens:,} tokens"]
        if self.supervised:
            share = self.supervised / self.tokens
            lines.append(f"{self.supervised:,} tokens ({share:.0%}) are to be predicted")
        for reason, n in self.dropped.items():
            ellipsis = ", ..." if n > _NAMED else ""
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
    """The examples of rows, in order; `census` counts on the way.

    Raises:
        TextError: a row that somebody has to mend, or no example is left.
    """
    for row in rows:
        census.rows += 1
        example = form.encode(row)
        if isinstance(example, Refusal):
            census.dropped[example.reason] += 1
            named = census.first_dropped.setdefault(example.reason, [])
            if len(named) < _NAMED:
                named.append(row.where)
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
