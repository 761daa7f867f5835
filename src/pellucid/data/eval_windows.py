"""Windows of a text from its first token to its last, for evaluation, where each token counts once.

Comes in: all tokens end to end. Goes out: their windows. It does not know what is predicted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pellucid.batches import IGNORED, TokenBatch
from pellucid.errors import TextError

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Some windows: their ids, the documents' numbers, and which tokens no other window counts.

    `position` is the number of the first of them.
    """

    position: int
    ids: Indices
    counted: npt.NDArray[np.bool_]
    documents: Indices | None


def cut_in_order(
    tokens: npt.NDArray[Any],
    *,
    length: int,
    batch_size: int,
    documents: npt.NDArray[Any] | None = None,
) -> Iterator[Windows]:
    """Windows of `length` tokens in order; the last ends with the text and repeats some tokens.

    Raises:
        TextError: the text is shorter than one window.
    """
    n = len(tokens)
    if n < length:
        raise TextError(
            f"the held-out text has {n:,} tokens, fewer than one window of {length:,}: hold out "
            "more, or take a shorter context"
        )
    begins = np.arange(0, n, length)
    for first in range(0, len(begins), batch_size):
        starts = begins[first : first + batch_size, None]
        places = np.minimum(starts, n - length) + np.arange(length)
        numbers = None if documents is None else np.searchsorted(documents, places, side="right")
        ids = tokens[places].astype(np.int64)
        yield Windows(first, ids, places >= starts, numbers)


def windows_of(batch: TokenBatch, position: int) -> Windows:
    """The windows of a batch of `Order`."""
    documents = None if batch.documents is None else batch.documents.numpy()
    return Windows(position, batch.ids.numpy(), batch.targets.numpy() != IGNORED, documents)
