"""What a model computed, refused where it is no number: nothing is drawn from NaN.

Comes in: logits or vectors. Goes out: the same, or a refusal. It does not know the model.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np
import torch
from torch import Tensor

from pellucid.errors import NonFiniteError
from pellucid.typed import to_numpy

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
    top = (
        np.max(to_numpy(values.detach()))
        if values.device.type == "cpu" and values.dtype in (torch.float32, torch.float64)
        else float(values.detach().max())
    )
    if not np.isfinite(top):
        raise NonFiniteError(
            f"{name} are not finite ({float(top)}), though every weight is: numbers in the forward "
            "pass grew too large. Use an earlier checkpoint, or --weights float32; pellucid check "
            "shows which layer it is"
        )
    return values
