"""How large Adam's steps are, and what eps takes from them, by what it remembers."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor

from pellucid.typed import to_list
from pellucid.vitals.step_signs import number_in, sample

#: So many matrices are looked at.
_MATRICES = 32


def remembered_step(optimiser: Any) -> float | None:
    """The RMS of the step that Adam's memory leads to, in learning rates, of the middle matrix.

    A step is m / sqrt(v), each divided by what its mean lacks at the start. What is remembered
    tells it without any reading of an update, so that it is known however rare readings are.

    Args:
        optimiser: The optimiser, after its last update.

    Returns:
        The step; None if no matrix has both means, whole and in full precision.

    Source:
        Kingma and Ba 2015 (1412.6980), algorithm 1.
    """
    sizes = [
        _step_of(memory, group["betas"])
        for memory, group in _memories(optimiser)
        if len(group.get("betas") or ()) > 1
    ]
    return _median(sizes)


def share_below_eps(optimiser: Any) -> float | None:
    """The share of a matrix's numbers whose usual gradient is smaller than eps, of the middle one.

    Adam and RMSprop divide by sqrt(v) + eps: where eps is the larger part, they do not divide by
    the gradient's size, and their steps are as much smaller than the rate.

    Args:
        optimiser: The optimiser, after its last update.

    Returns:
        The share; None if no matrix has a mean of squares, whole, and one eps.

    Source:
        Kingma and Ba 2015 (1412.6980), algorithm 1.
    """
    return _median([_below_eps(memory, group) for memory, group in _memories(optimiser)])


def _memories(optimiser: Any) -> list[tuple[Mapping[str, Any], dict[str, Any]]]:
    """What an optimiser remembers of some matrices, each with its group."""
    matrices = [
        (parameter, group)
        for group in getattr(optimiser, "param_groups", ())
        for parameter in group["params"]
        if parameter.ndim > 1
    ]
    state: Mapping[Any, Any] = getattr(optimiser, "state", {})
    chosen = matrices[:: max(1, len(matrices) // _MATRICES)]
    return [
        (cast("Mapping[str, Any]", memory), group)
        for parameter, group in chosen
        if isinstance(memory := state.get(parameter), dict)
    ]


def _median(numbers: list[Tensor | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    if not known:
        return None
    # one transfer; the matrices of a model may lie on several devices
    return statistics.median(to_list(torch.stack([x.to(known[0].device) for x in known])))


def _below_eps(memory: Mapping[str, Any], group: dict[str, Any]) -> Tensor | None:
    squares, eps = memory.get("exp_avg_sq", memory.get("square_avg")), number_in(group, "eps")
    age, betas = number_in(dict(memory), "step"), group.get("betas") or ()
    if type(squares) is not Tensor or eps is None or not age:
        return None
    decay = betas[1] if len(betas) > 1 else 0.0  # RMSprop's mean is not corrected
    sizes = (sample(squares).float() / (1 - decay**age)).sqrt()
    has_gradients = sizes > 0  # rows of tokens that never came have none
    return ((sizes < eps) & has_gradients).sum() / has_gradients.sum().clamp(min=1)


def _step_of(memory: Mapping[str, Any], betas: tuple[float, float]) -> Tensor | None:
    m, v = memory.get("exp_avg"), memory.get("max_exp_avg_sq", memory.get("exp_avg_sq"))
    age = number_in(dict(memory), "step")
    if type(m) is not Tensor or type(v) is not Tensor or not age or m.shape != v.shape:
        return None
    means, squares = sample(m).float(), sample(v).float()
    has_gradients = squares > 0  # rows of tokens that never came have no steps
    sizes = means.square() / squares.clamp(min=torch.finfo(squares.dtype).tiny)
    share = torch.where(has_gradients, sizes, 0).sum() / has_gradients.sum().clamp(min=1)
    first, second = (1 - beta**age for beta in betas[:2])
    return (share.clamp(max=1e12) * second).sqrt() / first
