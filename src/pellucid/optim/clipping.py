"""Clipping by the global norm, and the gate that skips an update that is not finite.

Nothing here asks the device for a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Gate:
    """What an optimiser does with gradients first.

    It divides them by `divisor`; if `blocked` is 1 it skips the update.

    Attributes:
        norm: of all gradients together.
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
    norm: Float[Tensor, ""] | None = None,
) -> Gate:
    """The gate of one update.

    After a value that is not finite, the gate skips every later update too. So the weights that met
    it remain, however late the host reads them.

    Args:
        gradients: of all trained parameters.
        loss: the loss of the update.
        clip_norm: bound on the norm of all gradients; None does not clip.
        blocked: the `blocked` of the last gate.
        norm: of all gradients, if `gradients` are only a share of them.

    Source:
        Pascanu, Mikolov and Bengio 2013, "On the difficulty of training recurrent neural networks",
        algorithm 1.
    """
    norm = _total_norm(gradients) if norm is None else norm
    # the optimiser may be on the processor, and the loss on a GPU
    loss, blocked = loss.to(norm.device), blocked.to(norm.device)
    finite = torch.isfinite(norm) & torch.isfinite(loss)
    blocked = torch.maximum(blocked, (~finite).to(blocked.dtype))
    divisor = torch.ones_like(norm) if clip_norm is None else (norm / clip_norm).clamp(min=1.0)
    return Gate(norm=norm, divisor=divisor, blocked=blocked)


def _total_norm(gradients: Sequence[Tensor]) -> Float[Tensor, ""]:
    """The norm of all gradients together; of bfloat16 ones it is summed in float32."""
    if all(gradient.dtype != torch.bfloat16 for gradient in gradients):
        return torch.nn.utils.get_total_norm(gradients)
    norm: Any = cast("Any", torch.linalg).vector_norm
    return norm(torch.stack([norm(gradient, dtype=torch.float32) for gradient in gradients]))
