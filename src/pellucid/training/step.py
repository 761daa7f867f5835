"""One update: forward, loss, backward, clip, gate, step.

Comes in: built parts and a batch. Goes out: numbers that are still on the device. It does not know
how many steps there are, nor what is reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.batches import IGNORED, LanguageModel, TokenBatch
from pellucid.objectives import Objective
from pellucid.optim import Optimiser, gate
from pellucid.typed import backward

Precision = Literal["float32", "bfloat16"]


@dataclass(frozen=True, slots=True)
class StepNumbers:
    """What one update measured; `blocked` is 1 once any value was not finite."""

    loss_nats: Float[Tensor, ""]
    log_z: Float[Tensor, ""]
    grad_norm: Float[Tensor, ""]
    blocked: Float[Tensor, ""]


def split_batch(batch: TokenBatch, parts: int) -> Iterator[TokenBatch]:
    """The batch in equal parts, each with its own number of supervised tokens."""
    if parts == 1:
        yield batch
        return
    rows = batch.ids.shape[0] // parts
    for start in range(0, rows * parts, rows):
        part = slice(start, start + rows)
        targets = batch.targets[part]
        yield TokenBatch(
            ids=batch.ids[part],
            targets=targets,
            n_supervised=int((targets != IGNORED).sum()),
            documents=None if batch.documents is None else batch.documents[part],
        )


def to_device(batch: TokenBatch, device: torch.device) -> TokenBatch:
    """The batch on `device`; pinned first where that lets the copy overlap with computing."""
    if device.type == "cpu":
        return batch

    def moved(tensor: Tensor) -> Tensor:
        tensor = tensor.pin_memory() if device.type == "cuda" else tensor
        return tensor.to(device, non_blocking=True)

    return TokenBatch(
        ids=moved(batch.ids),
        targets=moved(batch.targets),
        n_supervised=batch.n_supervised,
        documents=None if batch.documents is None else moved(batch.documents),
    )


def autocast(device: torch.device, precision: Precision) -> torch.autocast:
    """Matrix products in bfloat16 where `precision` says so; weights stay float32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16")


def accumulate(
    model: LanguageModel,
    objective: Objective,
    batch: TokenBatch,
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
            loss = objective(model, to_device(part, device), batch.n_supervised)
        backward(loss.total)
        for name, value in (("total", loss.total), *loss.parts.items()):
            value = value.detach()
            sums[name] = sums[name] + value if name in sums else value
    return sums


def update(
    model: LanguageModel,
    objective: Objective,
    optimiser: Optimiser,
    batch: TokenBatch,
    *,
    factor: float,
    clip_norm: float | None,
    blocked: Float[Tensor, ""],
    accumulation: int,
    device: torch.device,
    precision: Precision,
) -> StepNumbers:
    """One update of `optimiser` on `batch` at `factor` times its peak learning rate.

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
    opened = gate(optimiser.gradients(), sums["total"], clip_norm=clip_norm, blocked=blocked)
    optimiser.step(opened, factor)
    optimiser.zero_grad()
    return StepNumbers(
        loss_nats=sums["loss_nats"],
        log_z=sums["log_z"],
        grad_norm=opened.norm,
        blocked=opened.blocked,
    )
