"""Refuse values that are not finite, so that nothing is sampled from NaN."""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from pellucid.errors import NonFiniteError
from pellucid.typed import to_list, to_numpy

_refuses: ContextVar[bool] = ContextVar("_refuses", default=True)


@contextmanager
def not_refused() -> Generator[None]:
    """Allow any values in the context: training has its own gate for values that are not finite."""
    token = _refuses.set(False)
    try:
        yield
    finally:
        _refuses.reset(token)


def finite(values: Tensor, name: str) -> Tensor:
    """`values`, if they are finite or -inf, the logit of an impossible token.

    Args:
        values: a tensor.
        name: what they are, for the message.

    Raises:
        NonFiniteError: some are NaN or +inf, or all are -inf.
    """
    if values.numel() == 0 or not _refuses.get():
        return values
    # a maximum keeps NaN and +inf; NumPy computes it without waking torch's threads
    if values.device.type == "cpu" and values.dtype in (torch.float32, torch.float64):
        _refuse(float(np.max(to_numpy(values.detach()))), name)
    else:
        _refuse(float(values.detach().max()), name)
    return values


def finite_later(values: Tensor, name: str) -> Tensor:
    """As `finite`, but it does not wait for a GPU: there `read_finite` checks."""
    return values if values.device.type == "cuda" else finite(values, name)


def read_finite(ids: Int[Tensor, " rows"], values: Tensor, name: str) -> list[int]:
    """Sampled ids as a list, after a check of the values that `finite_later` skipped.

    Args:
        ids: (rows,), sampled from the values.
        values: the values.
        name: what they are, for the message.

    Raises:
        NonFiniteError: as `finite`.
    """
    if values.device.type != "cuda" or not _refuses.get():
        return to_list(ids)
    return _copy_with_maximum(ids, values, name)


def _copy_with_maximum(ids: Tensor, values: Tensor, name: str) -> list[int]:
    # one copy from the GPU: float64 holds an id exactly
    combined = torch.cat((ids.double(), values.detach().max().double()[None]))
    *tokens, top = cast("list[float]", cast("Any", combined).tolist())
    _refuse(top, name)
    return [int(token) for token in tokens]


def _refuse(top: float, name: str) -> None:
    if not math.isfinite(top):
        raise NonFiniteError(
            f"{name} are not finite ({top}), although every weight is: numbers in the forward pass "
            "grew too large. Use an earlier checkpoint, or --weights float32; `pellucid check` "
            "shows the layer"
        )
