"""The numbers of a row: what a loss pays for, checksums of rows, and the weights to compare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from pellucid.vitals.model_parts import Anatomy, local
from pellucid.vitals.ranks.row import UNKNOWN
from pellucid.vitals.taps.recorded_call import is_plain

#: The gradient of a cross-entropy is c (p - y) up to so much of itself.
_FITS = 1e-2


def paid_and_weight(gradient: Tensor, logits: Tensor, stride: int) -> Tensor:
    """How many places a cross-entropy pays for, and what they weigh; their weight is NaN otherwise.

    The gradient of a place is c (softmax(z) - y): its negative number names the target and gives c.

    Args:
        gradient: (places, vocab) of the loss by the logits.
        logits: (sampled places, vocab).
        stride: between the sampled places.
    """
    paid = (gradient != 0).any(-1)
    sampled, p = gradient[::stride].float(), logits.float().softmax(-1)
    is_paid = paid[::stride]
    lowest, target = sampled.min(-1)
    c = -lowest / (1 - p.gather(-1, target[:, None])[:, 0]).clamp_min(1e-12)
    expected = c[:, None] * (p - nn.functional.one_hot(target, p.shape[-1]))
    error = (sampled - expected).square().sum(-1).sqrt()
    fits = (error <= _FITS * sampled.square().sum(-1).sqrt()) | ~is_paid
    n = paid.sum().double()
    weight = (c * is_paid).sum() / is_paid.sum().clamp_min(1) * n
    is_cross_entropy = fits.all() & is_paid.any()
    return torch.stack([n, torch.where(is_cross_entropy, weight.double(), torch.nan)])


def checksums(rows: Tensor) -> Tensor:
    """A number for each row (rows, ...), which equal rows share."""
    flat = rows.reshape(len(rows), -1)
    bits = flat.double().view(torch.int64) if flat.is_floating_point() else flat.long()
    places = torch.arange(flat.shape[1], device=flat.device)
    mixed = ((bits ^ (bits >> 29)) + 1) * (places * 0x9E3779B97F4A7C1 * 2 + 1)
    total = mixed.sum(1)
    return ((total ^ (total >> 31)) & ((1 << 24) - 1)).double()


def whole_parameters(anatomy: Anatomy) -> dict[str, nn.Parameter]:
    """The parameters that each rank holds as a whole, if it is clear which these are."""
    parameters = anatomy.parameters
    is_cut = [local(parameter) is not parameter for parameter in parameters.values()]
    if anatomy.is_sharded and not any(is_cut):
        return {}  # FSDP1 has flat parts, which look like whole tensors
    return {
        name: parameter
        for (name, parameter), cut in zip(parameters.items(), is_cut, strict=True)
        if not cut and parameter.is_floating_point() and not hasattr(parameter, "ds_id")
    }


def tensors(values: Sequence[Any]) -> Iterator[Tensor]:
    """The tensors with rows among the arguments of a call."""
    for value in values:
        if isinstance(value, Tensor) and value.ndim and is_plain(value) and value.numel():
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors(cast("Sequence[Any]", value))


def ids_of(optimiser: Optimizer | None) -> set[int]:
    """The ids of the parameters of an optimiser."""
    groups: list[dict[str, Any]] = [] if optimiser is None else optimiser.param_groups
    return {id(p) for group in groups for p in cast("list[nn.Parameter]", group["params"])}


def norms(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The norm of each tensor."""
    norms: list[Tensor] = []
    if tensors:
        norms = cast("Any", torch)._foreach_norm([*tensors.values()])
    return dict(zip(tensors, norms, strict=True))


def joined(norms: Sequence[Tensor]) -> Tensor:
    """The norm of tensors together."""
    return torch.stack([norm.double() for norm in norms]).square().sum().sqrt()


def padded(numbers: Tensor | None, size: int, device: torch.device) -> Tensor:
    """Numbers in a row of one size: zeros follow; `UNKNOWN` if there are none."""
    if numbers is None:
        return torch.full((size,), UNKNOWN, device=device, dtype=torch.float64)
    numbers = numbers.to(device, torch.float64)
    return nn.functional.pad(numbers, (0, size - len(numbers)))
