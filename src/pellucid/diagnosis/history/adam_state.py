"""How large Adam's steps are, by what it remembers."""

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
    matrices = [
        (parameter, group)
        for group in getattr(optimiser, "param_groups", ())
        if len(group.get("betas") or ()) > 1
        for parameter in group["params"]
        if parameter.ndim > 1
    ]
    state: Mapping[Any, Any] = getattr(optimiser, "state", {})
    chosen = matrices[:: max(1, len(matrices) // _MATRICES)]
    sizes = [
        _step_of(cast("Mapping[str, Any]", memory), group["betas"])
        for parameter, group in chosen
        if isinstance(memory := state.get(parameter), dict)
    ]
    known = [size for size in sizes if size is not None]
    if not known:
        return None
    # one transfer; the matrices of a model may lie on several devices
    return statistics.median(to_list(torch.stack([size.to(known[0].device) for size in known])))


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
