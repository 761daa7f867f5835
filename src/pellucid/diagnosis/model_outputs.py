"""What a foreign module returns, and where in it the logits are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from torch import Tensor

_NAMES = ("logits", "last_hidden_state", "prediction_logits")


def logits_in(returned: Any, rows: int, time: int) -> Tensor | None:
    """The logits for (rows, time) ids; flattened ones are folded back."""
    for tensor in _tensors(returned):
        if tensor.ndim == 3 and tensor.shape[:2] == (rows, time):
            return tensor
        if tensor.ndim == 2 and tensor.shape[0] == rows * time and tensor.shape[1] > 1:
            return tensor.reshape(rows, time, tensor.shape[1])
    return None


def loss_in(returned: Any) -> Tensor | None:
    """The scalar loss, where one was returned."""
    named = getattr(returned, "loss", None)
    if isinstance(named, Tensor):
        return named
    return next((tensor for tensor in _tensors(returned) if tensor.numel() == 1), None)


def _tensors(returned: Any) -> list[Tensor]:
    if isinstance(returned, Tensor):
        return [returned]
    if isinstance(returned, Mapping):
        table = cast("Mapping[str, Any]", returned)
        named = [table[name] for name in _NAMES if name in table]
        unnamed = list(table.values())
    elif isinstance(returned, tuple | list):
        named, unnamed = [], list(cast("tuple[Any, ...]", returned))
    else:
        named, unnamed = [getattr(returned, name, None) for name in _NAMES], []
    return [tensor for tensor in (*named, *unnamed) if isinstance(tensor, Tensor)]
