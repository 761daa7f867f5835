"""Forms without a chat: pairs of texts, and texts with labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from pellucid.data.columns import FLAG, Column, text_of
from pellucid.data.example import Example, Refusal
from pellucid.data.table_rows import Row, format_names, short
from pellucid.errors import TextError
from pellucid.tokenizers import Framing, Tokenizer


@dataclass(frozen=True, slots=True)
class PairColumns:
    """The columns of a source and of its target."""

    source: Column
    target: Column

    @property
    def choices(self) -> list[str]:
        """The columns, as lines for people."""
        return [f"source: {self.source.choice}", f"target: {self.target.choice}"]

    def texts(self, row: Row) -> list[str]:
        """The texts that a tokenizer may train on."""
        return [self.source.text(row), self.target.text(row)]


class Pairs:
    """Columns "source", framed for an encoder, and "target", a text with its end token.

    The decoder starts with the tokenizer's begin token, which is no part of the target.
    """

    def __init__(self, columns: PairColumns, tokenizer: Tokenizer, *, context_length: int) -> None:
        self._columns, self._tokenizer = columns, tokenizer
        self._framing, self._longest = Framing(tokenizer), context_length

    @property
    def choices(self) -> list[str]:
        """The columns, as lines for people."""
        return self._columns.choices

    def encode(self, row: Row) -> Example | Refusal:
        """The row as a pair; each half is cut at the end of the window."""
        source, target = self._columns.source.text(row), self._columns.target.text(row)
        if not source.strip():
            return Refusal("it has no source")
        if not target.strip():
            return Refusal("it has no target")
        read = self._framing.ids_within(source, self._longest)
        target_ids = [*self._tokenizer.encode(target), self._tokenizer.end_id]
        return Example(
            ids={"source": read.ids, "target": target_ids[: self._longest]},
            group=source.strip(),
            row=row.number,
            truncated=read.truncated or len(target_ids) > self._longest,
            ends=len(target_ids) <= self._longest,
        )


@dataclass(frozen=True, slots=True)
class LabelColumns:
    """The columns of a text and of its class, or of classes with `separator` between them."""

    text: Column
    label: Column
    separator: str | None

    @property
    def choices(self) -> list[str]:
        """The columns, as lines for people."""
        separator = "" if self.separator is None else f", separated by {self.separator!r}"
        return [f"text: {self.text.choice}", f"label: {self.label.choice}{separator}"]

    def texts(self, row: Row) -> list[str]:
        """The texts that a tokenizer may train on."""
        return [self.text.text(row)]

    def names(self, row: Row) -> list[str] | None:
        """The classes in the label, without blanks around them; None if the label is empty.

        Raises:
            TextError: it is neither a text, nor a whole number, nor a list of these.
        """
        value = self.label.value(row)
        if isinstance(value, list):
            return [self._name(row, label) for label in cast("list[object]", value)]
        if value is None or (isinstance(value, str) and not value.strip()):
            return None
        if self.separator is None:
            return [self._name(row, value)]
        parts = self._name(row, value).split(self.separator)
        return [part.strip() for part in parts if part.strip()]

    def _name(self, row: Row, value: object) -> str:
        if isinstance(value, int):
            return str(value)
        if isinstance(value, float):
            raise TextError(
                f"{row.location}: the label in {self.label.choice!r} is {short(value)}, expected "
                "the name of a class: write a text or a whole number"
            )
        name = text_of(row.location, self.label.choice, value, flag=FLAG).strip()
        if not name:
            raise TextError(f"{row.location}: one of its labels is empty: remove it")
        return name


@dataclass(frozen=True, slots=True)
class Classes:
    """The names of the classes by number; `multi` if a text may have several."""

    names: tuple[str, ...]
    multi: bool


def classes_of(
    columns: LabelColumns, rows: Iterable[Row], class_names: Sequence[str] | None
) -> Classes:
    """The classes in the labels of rows, sorted, or `class_names` if you pass them.

    A text may have several if labels are lists or if the columns have a separator.

    Args:
        columns: the columns of the rows.
        rows: all rows.
        class_names: all classes in the order of their numbers; None takes them from the rows.

    Raises:
        TextError: the labels name fewer than two classes.
    """
    labels, multi = set[str](), columns.separator is not None
    for row in rows:
        multi = multi or isinstance(columns.label.value(row), list)
        labels.update(columns.names(row) or ())
    if class_names is not None:
        return Classes(tuple(class_names), multi)
    numbers = all(name.removeprefix("-").isdecimal() for name in labels)
    names = sorted(labels, key=lambda name: (int(name), name) if numbers else (0, name))
    if len(names) < 2:
        raise TextError(
            f"the labels in {columns.label.choice!r} name {len(names)} class "
            f"({format_names(names)}), but a classifier needs two or more: choose another column "
            "with --columns"
        )
    return Classes(tuple(names), multi)


class Labelled:
    """Columns "ids", framed for an encoder, and "label".

    The label is a number, or a 0 or 1 for each class if a text may have several.
    """

    def __init__(
        self, columns: LabelColumns, classes: Classes, tokenizer: Tokenizer, *, context_length: int
    ) -> None:
        self._columns, self.classes = columns, classes
        self._framing, self._longest = Framing.for_classes(tokenizer), context_length
        self._number = {name: number for number, name in enumerate(classes.names)}

    @property
    def choices(self) -> list[str]:
        """The columns, as lines for people."""
        kind = "a text may have several" if self.classes.multi else "each text has one"
        return [*self._columns.choices, f"classes: {', '.join(self.classes.names)} ({kind})"]

    def encode(self, row: Row) -> Example | Refusal:
        """The row as a text with its label; the text is cut at the end of the window.

        Raises:
            TextError: a label that names none of the classes.
        """
        text, names = self._columns.text.text(row), self._columns.names(row)
        if not text.strip():
            return Refusal("it has no text")
        if names is None:
            return Refusal("it has no label")
        for name in names:
            if name not in self._number:
                raise TextError(
                    f"{row.location}: the label {name!r} is none of the classes "
                    f"({format_names(self.classes.names)}): correct the row, or name all classes"
                )
        numbers = sorted({self._number[name] for name in names})
        read = self._framing.ids_within(text, self._longest)
        indicators = [int(number in numbers) for number in range(len(self.classes.names))]
        return Example(
            ids={
                "ids": read.ids,
                "label": indicators if self.classes.multi else numbers,
            },
            group=text.strip(),
            row=row.number,
            truncated=read.truncated,
            classes=tuple(numbers),
        )
