"""The order in which training text is seen: a pure function of a seed and a position.

Comes in: all tokens end to end. Goes out: batches. It holds no state: the place in the data is one
whole number, so that a resumed run takes up exactly where the other stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from pellucid.batches import IGNORED, TokenBatch
from pellucid.errors import TextError
from pellucid.typed import from_numpy

Indices = npt.NDArray[np.int64]


class Order:
    """Windows of `context_length` tokens, shuffled anew each epoch, each token a target once.

    The text is a ring of n tokens: token i + 1 is the target of token i, and the first token
    follows the last, as one document follows another. Each epoch turns the ring by a random phase,
    so that windows are cut at other places; the last window's targets that others already cover are
    ignored.

    With `documents`, the sorted places at which documents begin, batches number the document of
    each token.

    Raises:
        TextError: there are fewer tokens than one context.
    """

    def __init__(
        self,
        tokens: npt.NDArray[Any],
        *,
        context_length: int,
        seed: int,
        documents: npt.NDArray[Any] | None = None,
    ) -> None:
        if len(tokens) < context_length:
            raise TextError(
                f"the training text has {len(tokens):,} tokens, fewer than one context of "
                f"{context_length:,}: pass more text, or a shorter context with "
                f"--set model.context_length={max(1, len(tokens) // 8)}"
            )
        self._tokens = tokens
        self._context_length = context_length
        self._seed = seed
        self._documents = documents
        self.windows_per_epoch = -(-len(tokens) // context_length)
        self._epoch = lru_cache(maxsize=2)(self._shuffled)

    def batch(self, position: int, n_windows: int) -> TokenBatch:
        """The windows from `position` on, counted over all epochs."""
        n, length = len(self._tokens), self._context_length
        epochs, windows_in = np.divmod(
            np.arange(position, position + n_windows), self.windows_per_epoch
        )
        starts = np.empty(n_windows, dtype=np.int64)
        last = np.empty(n_windows, dtype=np.int64)
        for epoch in np.unique(epochs):
            in_epoch = epochs == epoch
            phase, windows = self._epoch(int(epoch))
            chosen = windows[windows_in[in_epoch]]
            starts[in_epoch] = phase + chosen * length
            last[in_epoch] = np.minimum(length, n - chosen * length)
        columns = np.arange(length + 1)
        places = (starts[:, None] + columns) % n
        ring = self._tokens[places].astype(np.int64)
        targets = np.where(columns[:-1] < last[:, None], ring[:, 1:], IGNORED)
        return TokenBatch(
            ids=from_numpy(ring[:, :-1].copy()),
            targets=from_numpy(targets),
            n_supervised=int(last.sum()),
            documents=_numbered(places[:, :-1], self._documents),
        )

    def _shuffled(self, epoch: int) -> tuple[int, Indices]:
        random = np.random.Generator(np.random.Philox(key=[self._seed, epoch]))
        phase = int(random.integers(self._context_length))
        return phase, random.permutation(self.windows_per_epoch)


def _numbered(places: Indices, documents: npt.NDArray[Any] | None) -> Tensor | None:
    """The number of the document of the token at each place."""
    if documents is None:
        return None
    return from_numpy(np.searchsorted(documents, places, side="right").astype(np.int64))


def windows(
    tokens: npt.NDArray[Any],
    *,
    context_length: int,
    batch_size: int,
    documents: npt.NDArray[Any] | None = None,
) -> Iterator[TokenBatch]:
    """Every token after the first as a target exactly once, in order: for evaluation.

    `documents`: as in `Order`.
    """
    n = len(tokens) - 1
    for first in range(0, n, batch_size * context_length):
        starts = np.arange(first, min(n, first + batch_size * context_length), context_length)
        index = starts[:, None] + np.arange(context_length)
        ids = tokens[np.minimum(index, n)].astype(np.int64)
        follows = tokens[np.minimum(index + 1, n)].astype(np.int64)
        targets = np.where(index < n, follows, IGNORED)
        yield TokenBatch(
            ids=from_numpy(ids),
            targets=from_numpy(targets),
            n_supervised=int((index < n).sum()),
            documents=_numbered(np.minimum(index, n), documents),
        )
