"""Token ids that you pass instead of a text, checked against a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard, cast

import numpy as np
import numpy.typing as npt
from torch import Tensor

from pellucid.errors import TextError
from pellucid.model import Transformer
from pellucid.typed import to_numpy

#: The ids of one text, (time,), or of several: rows of the same or of different length.
TokenIds = Tensor | npt.NDArray[Any] | Sequence[int] | Sequence[Sequence[int]] | Sequence[Tensor]
#: The ids of one text.
Row = npt.NDArray[np.int64]


def are_token_ids(value: object) -> TypeGuard[TokenIds]:
    """Whether a value holds token ids, and is neither a text nor names of files."""
    if isinstance(value, Tensor | np.ndarray):
        return True
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return False
    first: Any = next(iter(cast("Sequence[Any]", value)), None)
    return isinstance(first, int | np.integer) or are_token_ids(first)


def read_texts_of_ids(ids: TokenIds, model: Transformer, name: str = "ids") -> list[Row]:
    """The ids of each text.

    Args:
        ids: (time,), one text; or (texts, time) or rows of different length, several.
        model: every id must have a row in its embedding.
        name: of the ids, for messages.

    Raises:
        TextError: there are none, they are no whole numbers, or one has no row.
    """
    last = model.token_embedding.num_embeddings - 1
    rows = [_whole_numbers(row, name) for row in _rows(ids)]
    for row in rows:
        if row.min() < 0 or row.max() > last:
            raise TextError(
                f"{name} must lie between 0 and {last}, the rows of the embedding; one is "
                f"{row[(row < 0) | (row > last)][0]}"
            )
    return rows


def read_text_of_ids(ids: TokenIds, model: Transformer, name: str = "ids") -> tuple[int, ...]:
    """The ids of one text, no longer than the model's context; (1, time) is one text too.

    Raises:
        TextError: as `read_texts_of_ids`; or there are several texts, or too many ids.
    """
    rows = read_texts_of_ids(ids, model, name)
    if len(rows) != 1:
        raise TextError(f"{name} must be the ids of one text, was {len(rows)} texts: pass one row")
    if len(rows[0]) > model.context_length:
        raise TextError(
            f"{name} has {len(rows[0]):,} tokens, but the model reads at most "
            f"{model.context_length:,}: pass fewer"
        )
    return tuple(int(token_id) for token_id in rows[0])


def _rows(ids: TokenIds) -> Sequence[Any]:
    """The texts in `ids`: their rows, or the ids themselves as one row."""
    if isinstance(ids, Tensor | np.ndarray):
        return list(ids) if ids.ndim == 2 else [ids]
    sequence = cast("Sequence[Any]", ids)
    nested = bool(sequence) and all(isinstance(row, Sequence) or _axes(row) for row in sequence)
    return sequence if nested else [sequence]


def _axes(value: Any) -> int:
    return value.ndim if isinstance(value, Tensor | np.ndarray) else 0


def _whole_numbers(row: Any, name: str) -> Row:
    try:
        array = to_numpy(row.cpu()) if isinstance(row, Tensor) else np.asarray(row)
    except (TypeError, ValueError, OverflowError):
        array = np.asarray("text")
    if array.ndim == 1 and array.size and array.dtype.kind in "iu":
        return array.astype(np.int64)
    fault = f"was of {array.dtype}" if array.size and array.ndim == 1 else f"was {array.shape}"
    raise TextError(
        f"{name} must be the ids of one text, (time,), or of several: whole numbers, and at least "
        f"one for each text; {fault}"
    )
