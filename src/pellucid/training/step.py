"""One update: forward, loss, backward, clip, gate, step.

Comes in: built parts and a batch. Goes out: numbers that are still on the device. It does not know
how many steps there are, nor what is reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.batches import Batch
from pellucid.objectives import Objective
from pellucid.optim import Optimiser, gate
from pellucid.typed import backward

Precision = Literal["float32", "bfloat16"]
B = TypeVar("B", bound=Batch)


@dataclass(frozen=True, slots=True)
class StepNumbers:
    """What one update measured; `blocked` is 1 once any value was not finite.

    `parts` are those that the objective names, `loss_nats` among them.
    """

    parts: Mapping[str, Float[Tensor, ""]]
    grad_norm: Float[Tensor, ""]
    blocked: Float[Tensor, ""]


def split_batch(batch: B, parts: int) -> Iterator[B]:
    """The batch in equal parts."""
    rows = batch.rows // parts
    for start in range(0, rows * parts, rows):
        yield batch if parts == 1 else batch.part(slice(start, start + rows))


def to_device(batch: B, device: torch.device) -> B:
    """The batch on `device`; pinned first where that lets the copy overlap with computing."""
    if device.type == "cpu":
        return batch

    def moved(tensor: Tensor) -> Tensor:
        pinned = device.type == "cuda" and tensor.device.type == "cpu"
        return (tensor.pin_memory() if pinned else tensor).to(device, non_blocking=True)

    return batch.map_tensors(moved)


def autocast(device: torch.device, precision: Precision) -> torch.autocast:
    """Matrix products in bfloat16 where `precision` says so; weights stay float32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16")


def accumulate(
    model: Any,
    objective: Objective,
    batch: Batch,
    *,
    accumulation: int,
    device: torch.device,
    precision: Precision,
) -> dict[str, Tensor]:
    """Forward and backward over the parts of a batch; gradients add up to those of the whole.

    Returns the named parts of the loss, summed, and the loss itself as "total".
    """
    sums: dict[str, Tensor] = {}
    for part in split_batch(batch, accumulation):
        with autocast(device, precision):
            loss = objective(model, to_device(part, device))
        backward(loss.total)
        for name, value in (("total", loss.total), *loss.parts.items()):
            value = value.detach()
            sums[name] = sums[name] + value if name in sums else value
    return sums


def update(
    model: Any,
    objective: Objective,
    optimiser: Optimiser,
    batch: Batch,
    *,
    factor: float,
    clip_norm: float | None,
    blocked: Float[Tensor, ""],
    accumulation: int,
    device: torch.device,
    precision: Precision,
) -> StepNumbers:
    """One update of `optimiser` on `batch` at `factor` times its peak learning rate.

    What penalties on weights come to belongs to no batch: it is the update's own part "penalty",
    and "zeros" is the share of those weights that the update has left at exactly 0.
    Nothing here waits for the device.
    """
    sums = accumulate(
        model,
        objective,
        batch,
        accumulation=accumulation,
        device=device,
        precision=precision,
    )
    penalty = optimiser.penalty()
    if penalty is not None:
        sums["penalty"] = penalty
    opened = gate(optimiser.gradients(), sums["total"], clip_norm=clip_norm, blocked=blocked)
    optimiser.step(opened, factor)
    optimiser.zero_grad()
    zeros = optimiser.zeros()
    if zeros is not None:
        sums["zeros"] = zeros
    del sums["total"]
    return StepNumbers(parts=sums, grad_norm=opened.norm, blocked=opened.blocked)
