"""Collators: examples of different lengths become a batch.

Rows are padded on the right. The padding mask comes from the lengths alone, because the padding id
may be a real token, such as the end of a text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from pellucid.batches import IGNORED, LabelBatch, PairBatch, PreferenceBatch, TokenBatch
from pellucid.data.store import Examples
from pellucid.errors import TextError
from pellucid.typed import from_numpy

Indices = npt.NDArray[np.int64]
B = TypeVar("B")
B_co = TypeVar("B_co", covariant=True)

#: Rows are padded to a multiple of this, so that shapes repeat.
_MULTIPLE = 8


class Collation(Protocol[B_co]):
    """How examples of one form become a batch, and how long each is."""

    def lengths(self, examples: Examples) -> Indices:
        """How many tokens each example has."""
        ...

    def batch(self, examples: Examples, chosen: Indices) -> B_co:
        """The chosen examples, in this order."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Columns "ids" and "supervised" as a `TokenBatch`: one example in a row.

    No row is longer than `longest`, the context of the model.

    Attributes:
        pad_id: the token of padding.
    """

    pad_id: int
    longest: int

    def lengths(self, examples: Examples) -> Indices:
        """Tokens of prompt and answer."""
        return examples.columns["ids"].lengths

    def batch(self, examples: Examples, chosen: Indices) -> TokenBatch:
        """The chosen examples, in this order."""
        ids, targets = zip(*(with_targets(examples, int(index)) for index in chosen), strict=True)
        return _tokens(ids, targets, self.pad_id, self.longest)


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoTexts:
    """Columns "source" and "target" as a `PairBatch`.

    The decoder begins with `start_id`; if it is None, each target already begins with the token
    that starts the decoder.

    Attributes:
        pad_id: the token of padding.
        longest: tokens of a text at most.
    """

    pad_id: int
    longest: int
    start_id: int | None

    def lengths(self, examples: Examples) -> Indices:
        """Tokens of both texts."""
        return examples.columns["source"].lengths + examples.columns["target"].lengths

    def batch(self, examples: Examples, chosen: Indices) -> PairBatch:
        """The chosen examples, in this order."""
        sources = [examples.columns["source"][int(index)] for index in chosen]
        targets = [examples.columns["target"][int(index)] for index in chosen]
        if self.start_id is not None:
            targets = [np.concatenate([[self.start_id], target]) for target in targets]
        source, real = pad_rows(sources, self.pad_id, self.longest)
        ids, _ = pad_rows([target[:-1] for target in targets], self.pad_id, self.longest)
        padded_targets, _ = pad_rows([target[1:] for target in targets], IGNORED, self.longest)
        return PairBatch(
            source=from_numpy(source),
            source_padding=from_numpy(real),
            ids=from_numpy(ids),
            targets=from_numpy(padded_targets),
            n_supervised=sum(len(target) - 1 for target in targets),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassLabels:
    """Columns "ids" and "label" as a `LabelBatch`.

    A label is the number of the class; with `multi_label`, it is a 0 or 1 for each class.

    Attributes:
        pad_id: the token of padding.
        longest: tokens of a row at most.
        n_classes: how many classes there are.
    """

    pad_id: int
    longest: int
    n_classes: int
    multi_label: bool

    def lengths(self, examples: Examples) -> Indices:
        """Tokens of the text."""
        return examples.columns["ids"].lengths

    def batch(self, examples: Examples, chosen: Indices) -> LabelBatch:
        """The chosen examples, in this order."""
        texts = [examples.columns["ids"][int(index)] for index in chosen]
        ids, real = pad_rows(texts, self.pad_id, self.longest)
        return LabelBatch(
            ids=from_numpy(ids),
            padding=from_numpy(real),
            labels=self._labels(examples, chosen),
            n_supervised=len(chosen),
        )

    def _labels(self, examples: Examples, chosen: Indices) -> torch.Tensor:
        labels = [examples.columns["label"][int(index)] for index in chosen]
        length, end = (self.n_classes, 2) if self.multi_label else (1, self.n_classes)
        for index, label in zip(chosen, labels, strict=True):
            if len(label) != length or (label >= end).any():
                raise TextError(
                    f"row {examples.rows[index]} has the label {label.tolist()}, expected "
                    f"{'a 0 or 1 for each' if self.multi_label else 'the number of one'} of "
                    f"{self.n_classes} classes: prepare the rows again, with multi_label if a text "
                    "may have several"
                )
        if self.multi_label:
            return from_numpy(np.stack(labels).astype(np.float32))
        return from_numpy(np.concatenate(labels))


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoAnswers:
    """Columns "prompt", "chosen" and "rejected" as a `PreferenceBatch`.

    Attributes:
        pad_id: the token of padding.
        longest: tokens of a row at most.
    """

    pad_id: int
    longest: int

    def lengths(self, examples: Examples) -> Indices:
        """Tokens of the prompt with the longer of the answers."""
        columns = examples.columns
        answers = np.maximum(columns["chosen"].lengths, columns["rejected"].lengths)
        return columns["prompt"].lengths + answers

    def batch(self, examples: Examples, chosen: Indices) -> PreferenceBatch:
        """The chosen examples, in this order."""
        return PreferenceBatch(
            chosen=self._answers(examples, chosen, "chosen"),
            rejected=self._answers(examples, chosen, "rejected"),
            n_supervised=len(chosen),
        )

    def _answers(self, examples: Examples, chosen: Indices, column: str) -> TokenBatch:
        ids: list[Indices] = []
        targets: list[Indices] = []
        for index in chosen:
            prompt, answer = examples.columns["prompt"], examples.columns[column]
            row = np.concatenate([prompt[int(index)], answer[int(index)]])
            ids.append(row)
            targets.append(next_targets(row, np.arange(len(row)) >= len(prompt[int(index)])))
        return _tokens(ids, targets, self.pad_id, self.longest)


@dataclass(frozen=True, slots=True)
class PromptBatch:
    """Prompts to answer, and the row of each: as JSON, and its number.

    Attributes:
        ids: token ids of each prompt.
        texts: the row of each as JSON.
        rows: the number of each row.
    """

    ids: tuple[tuple[int, ...], ...]
    texts: tuple[str, ...]
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PromptTexts:
    """The column "prompt" as a `PromptBatch`, without padding."""

    def lengths(self, examples: Examples) -> Indices:
        """Tokens of the prompt."""
        return examples.columns["prompt"].lengths

    def batch(self, examples: Examples, chosen: Indices) -> PromptBatch:
        """The chosen examples, in this order.

        Raises:
            TextError: the rows were not stored.
        """
        prompts, texts = examples.columns["prompt"], examples.texts
        if texts is None:
            raise TextError("the rows of the prompts were not stored: prepare them again")
        return PromptBatch(
            ids=tuple(tuple(prompts[int(index)].tolist()) for index in chosen),
            texts=tuple(texts[int(index)] for index in chosen),
            rows=tuple(int(examples.rows[index]) for index in chosen),
        )


def with_targets(examples: Examples, index: int) -> tuple[Indices, Indices]:
    """The ids of an example, and the target at each of them."""
    ids = examples.columns["ids"][index]
    return ids, next_targets(ids, examples.columns["supervised"][index] != 0)


def next_targets(ids: Indices, supervised: npt.NDArray[np.bool_]) -> Indices:
    """The target of each token: the next one if it is supervised, else `IGNORED`."""
    return np.append(np.where(supervised[1:], ids[1:], IGNORED), np.int64(IGNORED))


def pad_rows(
    rows: Sequence[Indices], fill: int, longest: int
) -> tuple[Indices, npt.NDArray[np.bool_]]:
    """Rows padded on the right to a common length, and a mask that is true for real tokens.

    Raises:
        TextError: a row is longer than `longest`.
    """
    width = max(len(row) for row in rows)
    if width > longest:
        raise TextError(
            f"an example has {width:,} tokens, more than the context of {longest:,}: prepare the "
            "rows again with this context"
        )
    width = min(longest, max(1, -(-width // _MULTIPLE)) * _MULTIPLE)
    padded = np.full((len(rows), width), fill, dtype=np.int64)
    for place, row in zip(padded, rows, strict=True):
        place[: len(row)] = row
    return padded, np.arange(width) < np.array([len(row) for row in rows])[:, None]


def _tokens(
    ids: Sequence[Indices], targets: Sequence[Indices], pad_id: int, longest: int
) -> TokenBatch:
    tokens, real = pad_rows(ids, pad_id, longest)
    padded_targets, _ = pad_rows(targets, IGNORED, longest)
    return TokenBatch(
        ids=from_numpy(tokens),
        targets=from_numpy(padded_targets),
        padding=from_numpy(real),
        n_supervised=int((padded_targets != IGNORED).sum()),
    )


def in_turn(examples: Examples, collation: Collation[B], n_rows: int) -> Iterator[B]:
    """Every example exactly once, the shortest first, in batches: for evaluation.

    Args:
        examples: the examples.
        collation: makes a batch of examples.
        n_rows: examples in a batch.
    """
    by_length = np.argsort(collation.lengths(examples), kind="stable")
    for first in range(0, len(by_length), n_rows):
        yield collation.batch(examples, by_length[first : first + n_rows])


def number_documents(places: Indices, documents: npt.NDArray[Any] | None) -> Indices | None:
    """The number of the document of the token at each place; None without their starts."""
    if documents is None:
        return None
    return np.searchsorted(documents, places, side="right").astype(np.int64)
