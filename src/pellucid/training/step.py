"""One update: forward, loss, backward, clip, gate, step. Its numbers stay on the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.batches import Batch, Loss
from pellucid.model import Balancing
from pellucid.objectives import Objective
from pellucid.optim import Optimiser, gate
from pellucid.parallel import World
from pellucid.typed import backward

#: The type of matrix products.
Precision = Literal["float32", "bfloat16"]
B = TypeVar("B", bound=Batch)


@dataclass(frozen=True, slots=True)
class StepNumbers:
    """The numbers of one update: scalars on the device.

    `blocked` is 1 once any value was not finite. `parts` are named by the objective; one of them is
    `loss_nats`.
    """

    parts: Mapping[str, Float[Tensor, ""]]
    grad_norm: Float[Tensor, ""]
    blocked: Float[Tensor, ""]


@dataclass(frozen=True, slots=True)
class Share:
    """The parts of a batch that this rank computes, and the ranks that compute the others.

    `seed_part` seeds all generators before a part, given its number.
    """

    numbers: range
    seed_part: Callable[[int], None]
    world: World

    @classmethod
    def all_parts(cls, parts: int) -> Share:
        """All parts, which share one stream of random numbers."""
        return cls(range(parts), lambda part: None, World())


def split_batch(batch: B, parts: int) -> Iterator[B]:
    """The batch in so many equal parts."""
    rows = batch.rows // parts
    for start in (number * rows for number in range(parts)):
        yield batch if parts == 1 else batch.part(slice(start, start + rows))


def to_device(batch: B, device: torch.device) -> B:
    """The batch on `device`; for CUDA it is pinned, so that the copy overlaps with computing."""
    if device.type == "cpu":
        return batch

    def move(tensor: Tensor) -> Tensor:
        pinned = device.type == "cuda" and tensor.device.type == "cpu"
        return (tensor.pin_memory() if pinned else tensor).to(device, non_blocking=True)

    return batch.map_tensors(move)


def autocast(device: torch.device, precision: Precision) -> torch.autocast:
    """Compute matrix products in `precision`; weights stay float32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16")


def accumulate(
    model: Any,
    objective: Objective,
    batch: Batch,
    *,
    accumulation: int,
    device: torch.device,
    precision: Precision,
    balancing: Balancing | None = None,
    share: Share | None = None,
) -> dict[str, Tensor]:
    """Forward and backward over the parts of a batch; their gradients add up.

    Args:
        model: the model, on its device.
        objective: computes the loss.
        batch: the examples of this rank, on any device.
        accumulation: how many parts the batches of all ranks are cut into.
        device: where to compute.
        precision: the type of matrix products.
        balancing: adds the losses of a model's experts.
        share: the parts to compute; by default all.

    Returns:
        The named parts of the loss, summed, and the loss itself as "total": scalars on the device.
    """
    sums: dict[str, Tensor] = {}
    share = share or Share.all_parts(accumulation)
    for number, part in zip(share.numbers, split_batch(batch, len(share.numbers)), strict=True):
        share.seed_part(number)
        with autocast(device, precision):
            if balancing is None:
                loss = objective(model, to_device(part, device))
            else:
                with balancing.recording():
                    loss = objective(model, to_device(part, device))
                    loss = _with_balancing(loss, balancing, 1 / accumulation)
        backward(loss.total)
        for name, value in (("total", loss.total), *loss.parts.items()):
            value = value.detach()
            sums[name] = sums[name] + value if name in sums else value
    return sums


def _with_balancing(loss: Loss, balancing: Balancing, share: float) -> Loss:
    added = balancing.take_losses(share)
    if added is None:
        return loss
    return Loss(total=loss.total + added.total, parts={**loss.parts, **added.parts})


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
    balancing: Balancing | None = None,
    share: Share | None = None,
) -> StepNumbers:
    """Make one update; nothing in it waits for the device.

    Penalties on weights belong to no batch: they are the update's own part "penalty". "zeros" is
    the share of the penalised weights that are exactly 0 after the update.

    Args:
        model: the model, on its device.
        objective: computes the loss.
        optimiser: updates the parameters.
        batch: the examples of this rank, on any device.
        factor: the share of the peak learning rate.
        clip_norm: the largest norm of the gradient.
        blocked: a scalar on the device; above 0 it keeps the gate closed.
        accumulation: how many parts the batches of all ranks are cut into.
        device: where to compute.
        precision: the type of matrix products.
        balancing: evens out the load of a model's experts.
        share: the parts that this rank computes, and the other ranks; by default all parts.
    """
    share = share or Share.all_parts(accumulation)
    with share.world.summing_early(optimiser.parameters, len(share.numbers)):
        sums = accumulate(
            model,
            objective,
            batch,
            accumulation=accumulation,
            device=device,
            precision=precision,
            balancing=balancing,
            share=share,
        )
    share.world.sum_gradients(optimiser.parameters, tuple(sums.values()))
    penalty = optimiser.penalty()
    if penalty is not None:
        sums["penalty"] = share.world.full(penalty)
    gradients = optimiser.gradients()
    opened = gate(
        gradients,
        sums["total"],
        clip_norm=clip_norm,
        blocked=blocked,
        norm=share.world.norm(gradients),
    )
    optimiser.step(opened, factor)
    optimiser.zero_grad()
    if balancing is not None:
        share.world.sum_(balancing.loads())
        balancing.step(opened.blocked)
    zeros = optimiser.zeros()
    if zeros is not None:
        sums["zeros"] = share.world.full(zeros)
    del sums["total"]
    return StepNumbers(parts=sums, grad_norm=opened.norm, blocked=opened.blocked)
