"""Batches of windows and of examples: an order selects them, a collator makes the batch.

order            collator                     batch
MixedOrder       predict_next                 each token from those before it
MixedOrder       MaskTokens                   the masked tokens
MixedOrder       CorruptSpans                 the spans that were cut out
BucketOrder      a `Collation`                examples of like length
PackedOrder      (several examples a row)     the answers of conversations
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from pellucid.batches import IGNORED, TokenBatch
from pellucid.data.collate import Collation, number_documents, with_targets
from pellucid.data.order import BucketOrder, Indices, MixedOrder, PackedOrder, Ring
from pellucid.data.shards import BATCHES_AHEAD, RemoteTokens
from pellucid.data.store import Examples
from pellucid.errors import TextError
from pellucid.typed import from_numpy

B = TypeVar("B")


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Windows of a text; every array is (rows, time).

    Attributes:
        position: the number of the first window.
        ids: the tokens.
        next_ids: the token after each.
        is_new: true for a token that no other window of the epoch counts.
        documents: the number of each token's document.
    """

    position: int
    ids: Indices
    next_ids: Indices
    is_new: npt.NDArray[np.bool_]
    documents: Indices | None


class WindowBatches(Generic[B]):
    """Batches of a text, for training.

    Args:
        tokens: the text, all documents end to end.
        collate: makes a batch of windows.
        length: of a window, in tokens.
        seed: of the order.
        documents: the sorted places at which documents begin; with them, batches number the
            document of each token.
        rings: the parts of the text that are mixed by weight; by default one.

    Raises:
        TextError: there are fewer tokens than one window.
    """

    def __init__(
        self,
        tokens: npt.NDArray[Any] | RemoteTokens,
        collate: Callable[[Windows], B],
        *,
        length: int,
        seed: int,
        documents: npt.NDArray[Any] | None = None,
        rings: Sequence[Ring] = (),
    ) -> None:
        if len(tokens) < length:
            raise TextError(
                f"the training text has {len(tokens):,} tokens, fewer than one context of "
                f"{length:,}: pass more text, or a shorter context with "
                f"--set model.context_length={max(1, len(tokens) // 8)}"
            )
        self._tokens, self._documents, self._collate = tokens, documents, collate
        self._length = length
        rings = rings or (Ring(0, len(tokens), 1.0),)
        self._order = MixedOrder(rings, length=length, seed=seed)
        self.rows_per_epoch = self._order.rows_per_epoch
        #: The mean number of tokens of text in a row.
        self.tokens_per_row = len(tokens) / self.rows_per_epoch

    def batch(self, position: int, n_rows: int) -> B:
        """The windows from `position` on, counted over all epochs."""
        return self._collate(self._windows(position, n_rows, slice(None)))

    def own_rows(self, position: int, n_rows: int, rows: slice) -> tuple[B, int]:
        """Some rows of a batch, read alone, and how many tokens all its rows count.

        Args:
            position: of the batch.
            n_rows: of the batch.
            rows: the rows to read.
        """
        n_new = int(np.minimum(self._order.windows(position, n_rows)[1], self._length).sum())
        return self._collate(self._windows(position, n_rows, rows)), n_new

    def _windows(self, position: int, n_rows: int, rows: slice) -> Windows:
        columns = np.arange(self._length + 1)
        places, n_counted = self._places(position, n_rows, columns)
        places, n_counted = places[rows], n_counted[rows]
        ring = self._tokens[places].astype(np.int64)
        if isinstance(self._tokens, RemoteTokens):
            ends = np.append(columns[: -1 : self._tokens.shard_tokens], columns[-1])
            ahead, _ = self._places(position + n_rows, BATCHES_AHEAD * n_rows, ends)
            ahead = ahead.reshape(BATCHES_AHEAD, n_rows, len(ends))[:, rows]
            self._tokens.fetch_ahead(ahead.reshape(-1, len(ends)))
        return Windows(
            position,
            ids=ring[:, :-1].copy(),
            next_ids=ring[:, 1:],
            is_new=columns[:-1] < n_counted[:, None],
            documents=number_documents(places[:, :-1], self._documents),
        )

    def _places(self, position: int, n_rows: int, columns: Indices) -> tuple[Indices, Indices]:
        """The places of some tokens of each window, and how many of a window count."""
        # a ring: the first token follows the last, just as one document follows another
        starts, n_counted, first, n_tokens = self._order.windows(position, n_rows)
        return first[:, None] + (starts[:, None] + columns) % n_tokens[:, None], n_counted


def predict_next(windows: Windows) -> TokenBatch:
    """The collator of causal language models: token i + 1 is the target of token i."""
    documents = windows.documents
    return TokenBatch(
        ids=from_numpy(windows.ids),
        targets=from_numpy(np.where(windows.is_new, windows.next_ids, IGNORED)),
        n_supervised=int(windows.is_new.sum()),
        documents=None if documents is None else from_numpy(documents),
    )


def next_token_batches(
    tokens: npt.NDArray[Any],
    *,
    context_length: int,
    seed: int,
    documents: npt.NDArray[Any] | None = None,
    rings: Sequence[Ring] = (),
) -> WindowBatches[TokenBatch]:
    """Windows of `context_length` tokens in which each token is a target once an epoch.

    Args:
        tokens: the text, all documents end to end.
        context_length: of a window.
        seed: of the order.
        documents: where documents begin, to number the document of each token.
        rings: the parts of the text that are mixed by weight.

    Raises:
        TextError: there are fewer tokens than one context.
    """
    return WindowBatches(
        tokens, predict_next, length=context_length, seed=seed, documents=documents, rings=rings
    )


def next_token_windows(
    tokens: npt.NDArray[Any],
    *,
    context_length: int,
    batch_size: int,
    documents: npt.NDArray[Any] | None = None,
) -> Iterator[TokenBatch]:
    """Every token after the first is a target exactly once, in order: for evaluation.

    Args:
        tokens: the text, all documents end to end.
        context_length: of a window.
        batch_size: rows of a batch.
        documents: where documents begin, to number the document of each token.
    """
    n = len(tokens) - 1
    for first in range(0, n, batch_size * context_length):
        starts = np.arange(first, min(n, first + batch_size * context_length), context_length)
        index = starts[:, None] + np.arange(context_length)
        places = np.minimum(index, n)
        windows = Windows(
            first // context_length,
            ids=tokens[places].astype(np.int64),
            next_ids=tokens[np.minimum(index + 1, n)].astype(np.int64),
            is_new=index < n,
            documents=number_documents(places, documents),
        )
        yield predict_next(windows)


def windows_in_turn(
    tokens: npt.NDArray[Any],
    *,
    length: int,
    batch_size: int,
    documents: npt.NDArray[Any] | None = None,
) -> Iterator[Windows]:
    """Windows in which each token counts once, in order: for evaluation.

    The last window ends with the text and repeats some tokens, which do not count again.

    Args:
        tokens: the text, all documents end to end.
        length: of a window, in tokens.
        batch_size: windows at a time.
        documents: where documents begin, to number the document of each token.

    Raises:
        TextError: the text is shorter than one window.
    """
    n = len(tokens)
    if n < length:
        raise TextError(
            f"the held-out text has {n:,} tokens, fewer than one window of {length:,}: hold out "
            "more text, or choose a shorter context"
        )
    window_starts = np.arange(0, n, length)
    for first in range(0, len(window_starts), batch_size):
        starts = window_starts[first : first + batch_size, None]
        places = np.minimum(starts, n - length) + np.arange(length)
        yield Windows(
            first,
            ids=tokens[places].astype(np.int64),
            next_ids=tokens[np.minimum(places + 1, n - 1)].astype(np.int64),
            is_new=places >= starts,
            documents=number_documents(places, documents),
        )


class PackedBatches:
    """Several examples in each row of `context_length`: columns "ids" and "supervised".

    `documents` numbers the examples of a row from 1; padding has the number 0. The first token of
    an example is never the target of the example before it.

    Raises:
        TextError: an example is longer than a row.
    """

    def __init__(self, examples: Examples, *, context_length: int, pad_id: int, seed: int) -> None:
        self._examples, self._context_length, self._pad_id = examples, context_length, pad_id
        lengths = examples.columns["ids"].lengths
        self._order = PackedOrder(lengths, row_length=context_length, seed=seed)
        self.rows_per_epoch = self._order.rows_per_epoch
        #: The mean number of tokens of examples in a row.
        self.tokens_per_row = float(lengths.sum()) / self.rows_per_epoch

    @property
    def filled(self) -> float:
        """The share of a row that holds examples, not padding."""
        return self.tokens_per_row / self._context_length

    def batch(self, position: int, n_rows: int) -> TokenBatch:
        """The rows from `position` on, counted over all epochs."""
        ids = np.full((n_rows, self._context_length), self._pad_id, dtype=np.int64)
        targets = np.full_like(ids, IGNORED)
        documents = np.zeros_like(ids)
        for row in range(n_rows):
            end = 0
            for number, index in enumerate(self._order.examples(position + row), start=1):
                tokens, token_targets = with_targets(self._examples, int(index))
                start, end = end, end + len(tokens)
                ids[row, start:end] = tokens
                targets[row, start:end] = token_targets
                documents[row, start:end] = number
        return TokenBatch(
            ids=from_numpy(ids),
            targets=from_numpy(targets),
            documents=from_numpy(documents),
            n_supervised=int((targets != IGNORED).sum()),
        )


class BucketedBatches(Generic[B]):
    """One example in each row; a batch has examples of about the same length.

    Raises:
        TextError: there are no examples.
    """

    def __init__(
        self, examples: Examples, collation: Collation[B], *, rows_at_once: int, seed: int
    ) -> None:
        if not len(examples):
            raise TextError("there are no examples to learn from: pass more rows")
        self._examples, self._collation = examples, collation
        lengths = collation.lengths(examples)
        self._order = BucketOrder(lengths, rows_at_once=rows_at_once, seed=seed)
        self.rows_per_epoch = self._order.rows_per_epoch
        #: The mean number of tokens of an example, without padding.
        self.tokens_per_row = float(lengths.mean())

    def batch(self, position: int, n_rows: int) -> B:
        """The examples from `position` on, counted over all epochs."""
        return self._collation.batch(self._examples, self._order.examples(position, n_rows))
