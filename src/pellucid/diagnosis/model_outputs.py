"""Find the logits and the loss in whatever a foreign module returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from torch import Tensor

_NAMES = ("logits", "last_hidden_state", "prediction_logits")


def logits_in(returned: Any, rows: int, time: int) -> Tensor | None:
    """The (rows, time, vocab) logits; flat logits (rows * time, vocab) get their shape back.

    Args:
        returned: what the module returned.
        rows: the rows of its ids.
        time: the positions of its ids.
    """
    for tensor in _tensors(returned):
        if tensor.ndim == 3 and tensor.shape[:2] == (rows, time):
            return tensor
        if tensor.ndim == 2 and tensor.shape[0] == rows * time and tensor.shape[1] > 1:
            return tensor.reshape(rows, time, tensor.shape[1])
    return None


def loss_in(returned: Any) -> Tensor | None:
    """The scalar loss; None if there is none."""
    loss = getattr(returned, "loss", None)
    if isinstance(loss, Tensor):
        return loss
    return next((tensor for tensor in _tensors(returned) if tensor.numel() == 1), None)


def _tensors(returned: Any) -> list[Tensor]:
    if isinstance(returned, Tensor):
        return [returned]
    if isinstance(returned, Mapping):
        table = cast("Mapping[str, Any]", returned)
        values = [*(table[name] for name in _NAMES if name in table), *table.values()]
    elif isinstance(returned, tuple | list):
        values = list(cast("tuple[Any, ...]", returned))
    else:
        values = [getattr(returned, name, None) for name in _NAMES]
    return [value for value in values if isinstance(value, Tensor)]
