"""What a model computed, refused where it is no number: nothing is drawn from NaN."""

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
    """Within it values may be anything: a training has a gate that names what is not finite."""
    token = _refuses.set(False)
    try:
        yield
    finally:
        _refuses.reset(token)


def finite(values: Tensor, name: str) -> Tensor:
    """`values`, which `name` calls in the message; -inf, which says never, may be among them.

    Raises:
        NonFiniteError: there is NaN or +inf among them, or nothing but -inf.
    """
    if values.numel() == 0 or not _refuses.get():
        return values
    # NaN and +inf come through a maximum. NumPy finds one without waking torch's threads
    if values.device.type == "cpu" and values.dtype in (torch.float32, torch.float64):
        _refuse(float(np.max(to_numpy(values.detach()))), name)
    else:
        _refuse(float(values.detach().max()), name)
    return values


def finite_later(values: Tensor, name: str) -> Tensor:
    """As `finite`, but on a GPU nothing is waited for: `read_finite` is to look."""
    return values if values.device.type == "cuda" else finite(values, name)


def read_finite(ids: Int[Tensor, " rows"], values: Tensor, name: str) -> list[int]:
    """The ids that were chosen from `values`, on the host, where those are finite.

    What `finite_later` did not look at is looked at now: ids and the largest value are one copy.

    Raises:
        NonFiniteError: as `finite`.
    """
    if values.device.type != "cuda" or not _refuses.get():
        return to_list(ids)
    return _together(ids, values, name)


def _together(ids: Tensor, values: Tensor, name: str) -> list[int]:
    # an id is a whole number that float64 holds exactly
    combined = torch.cat((ids.double(), values.detach().max().double()[None]))
    *chosen, top = cast("list[float]", cast("Any", combined).tolist())
    _refuse(top, name)
    return [int(token) for token in chosen]


def _refuse(top: float, name: str) -> None:
    if not math.isfinite(top):
        raise NonFiniteError(
            f"{name} are not finite ({top}), though every weight is: numbers in the forward "
            "pass grew too large. Use an earlier checkpoint, or --weights float32; pellucid check "
            "shows which layer it is"
        )
