"""Clipping by the global norm, and the gate that skips an update that is not finite.

Nothing here asks the device for a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Gate:
    """What an optimiser does to gradients before it uses them.

    They are divided by `divisor`; where `blocked` is 1 the whole update is skipped.
    """

    norm: Float[Tensor, ""]
    divisor: Float[Tensor, ""]
    blocked: Float[Tensor, ""]


def gate(
    gradients: Sequence[Tensor],
    loss: Float[Tensor, ""],
    *,
    clip_norm: float | None,
    blocked: Float[Tensor, ""],
) -> Gate:
    """The gate of one update.

    `blocked` is what the last gate said: once a value was not finite every later update is skipped
    too, so that the weights stay those that met it, however late the host looks.

    Source:
        Pascanu, Mikolov and Bengio 2013, "On the difficulty of training recurrent neural networks",
        algorithm 1.
    """
    norm = torch.nn.utils.get_total_norm(gradients)
    finite = torch.isfinite(norm) & torch.isfinite(loss)
    blocked = torch.maximum(blocked, (~finite).to(blocked.dtype))
    divisor = torch.ones_like(norm) if clip_norm is None else (norm / clip_norm).clamp(min=1.0)
    return Gate(norm=norm, divisor=divisor, blocked=blocked)
