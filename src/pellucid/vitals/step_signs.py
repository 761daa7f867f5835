"""The effect of one optimiser step on a matrix, measured on samples of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from pellucid.rounded_weights import is_rounded

#: Most numbers of a matrix in a sample: enough to know its RMS to half a percent.
_SAMPLE = 2**14
#: Types of weights for which an update can be too small.
_NARROW = (torch.bfloat16, torch.float16)
#: Steps so many times shorter or longer than the formula's are of another optimiser.
_UNLIKE = 3.0
#: Marks a number that a matrix does not have.
NO_VALUE = -1.0


def sample(tensor: Tensor) -> Tensor:
    """At most `_SAMPLE` numbers of a tensor, evenly spread; a view if possible."""
    numbers = tensor.detach()
    if numbers.is_complex():
        numbers = torch.view_as_real(numbers.resolve_conj())
    flat = numbers.reshape(-1)
    # an odd stride reaches all columns of a matrix whose width is a power of two
    stride = -(-flat.numel() // _SAMPLE) | 1
    return flat[::stride]


def rms(x: Tensor) -> Tensor:
    """sqrt(mean(x^2))."""
    return x.square().mean().sqrt()


def number_in(group: dict[str, Any], name: str) -> float | None:
    """A group's number of that name; None if it is no single number, such as Adafactor's eps."""
    value: Any = group.get(name)
    if isinstance(value, Tensor) and value.numel() == 1:
        return float(value.detach())
    return float(value) if isinstance(value, int | float) else None


@dataclass(slots=True)
class Step:
    """One step of a matrix: samples of its old weights, its gradient and its change.

    `read` gives the numbers of a tensor of which this process may hold a part.
    """

    parameter: nn.Parameter
    old_weights: Tensor
    gradient: Tensor
    change: Tensor
    optimiser: torch.optim.Optimizer | None
    group: dict[str, Any]
    read: Callable[[Tensor], Tensor]


def is_adaptive(group: dict[str, Any]) -> bool:
    """Whether a group's optimiser divides by a running size of the gradient, as Adam does."""
    return "betas" in group and number_in(group, "eps") is not None


def _effective_step(step: Step) -> Tensor | None:
    """RMS of the update over its learning rate, without weight decay."""
    rate = number_in(step.group, "lr")
    if rate is None or step.optimiser is None or not is_adaptive(step.group):
        return None
    decay = rate * _decoupled_decay(step.optimiser, step.group) * step.old_weights.float()
    size = rms(step.change + decay) / rate if rate else torch.full_like(rms(step.change), torch.nan)
    # without a gradient there is no step, which is no fault of the optimiser
    is_known, formula = step.gradient.any(), _step_of_adam(step)
    if formula is not None and rate and step.parameter.dtype not in _NARROW:
        # RAdam shortens the first steps on purpose, LAMB all of them: these are none of Adam's
        is_known &= (size > formula / _UNLIKE) & (size < formula * _UNLIKE)
    return torch.where(is_known, size, NO_VALUE)


def _step_of_adam(step: Step) -> Tensor | None:
    """RMS of m / (sqrt(v) + eps), both without their bias; None without Adam's state.

    Source:
        Kingma and Ba 2014 (1412.6980), algorithm 1.
    """
    memory, eps = _memory_of(step), number_in(step.group, "eps")
    if eps is None or not {"exp_avg", "exp_avg_sq", "step"} <= memory.keys():
        return None
    m, v = _without_bias(step, "exp_avg", memory), _without_bias(step, "exp_avg_sq", memory)
    return rms(m / (v.sqrt() + eps))


def _memory_of(step: Step) -> dict[str, Any]:
    """What the optimiser keeps of the parameter; empty if it keeps nothing."""
    if step.optimiser is None:
        return {}
    return cast("dict[str, Any]", step.optimiser.state.get(step.parameter, {}))


def _without_bias(
    step: Step, name: Literal["exp_avg", "exp_avg_sq"], memory: dict[str, Any]
) -> Tensor:
    """Some numbers of a running mean of Adam, over the share of its weights that are in use.

    Args:
        step: The step.
        name: Of the mean.
        memory: What the optimiser keeps of the parameter.
    """
    beta = step.group["betas"][0 if name == "exp_avg" else 1]
    share = 1 - beta ** memory["step"]
    numbers = sample(step.read(memory[name])).float()
    return numbers / (share.to(step.gradient) if isinstance(share, Tensor) else share)


def _lost(step: Step) -> Tensor | None:
    # in a rounded weight an update counts even if it does not show
    if step.parameter.dtype not in _NARROW or is_rounded(step.parameter):
        return None
    return ((step.change == 0) & (step.gradient != 0)).double().mean()


def _decoupled_decay(optimiser: torch.optim.Optimizer, group: dict[str, Any]) -> float:
    decoupled = "AdamW" in type(optimiser).__name__ or group.get("decoupled_weight_decay")
    return (number_in(group, "weight_decay") or 0.0) if decoupled else 0.0


def _rms_t(step: Step) -> Tensor | None:
    """sqrt(mean(g^2 / max(v, eps^2))): how much larger gradients are than the optimiser expects.

    Source:
        Wortsman et al. 2023, "Stable and low-precision training for large-scale vision-language
        models", algorithm 2 (StableAdamW).
    """
    memory, eps = _memory_of(step), number_in(step.group, "eps")
    if eps is None or "betas" not in step.group or not {"exp_avg_sq", "step"} <= memory.keys():
        return None
    v = _without_bias(step, "exp_avg_sq", memory)
    return (step.gradient.square() / v.clamp(min=eps**2)).mean().sqrt()


STEP_SIGNS: dict[str, Callable[[Step], Tensor | None]] = {
    "update.effective_step": _effective_step,
    "gradient.rms_t": _rms_t,
    "update.lost": _lost,
}
