"""What each optimiser remembers of a parameter, and whether a saved state is that."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from pellucid.errors import CheckpointError
from pellucid.optim.muon import Muon

#: A count of updates; all else has the shape of its parameter.
_COUNT = "step"


def _keys(part: torch.optim.Optimizer) -> tuple[str, ...]:
    match part:
        case Muon():
            return ("momentum",)
        case torch.optim.SGD():
            return ("momentum_buffer",)
        case torch.optim.Adam() | torch.optim.AdamW():
            return (_COUNT, "exp_avg", "exp_avg_sq")
        case _:
            raise TypeError(f"it is not known what {type(part).__name__} remembers")


def check_state(
    name: str, state: Mapping[str, Tensor], part: torch.optim.Optimizer, parameter: nn.Parameter
) -> None:
    """Refuse a state of a parameter that the optimiser would not have saved.

    Raises:
        CheckpointError: names the tensor, its shape and type, and those that were expected.
    """
    keys = _keys(part)
    if sorted(state) != sorted(keys):
        raise CheckpointError(
            f"the optimiser's state of {name} has {', '.join(sorted(state))}, expected "
            f"{', '.join(keys)}: the file is damaged, or of another optimiser"
        )
    for key, value in state.items():
        shape = () if key == _COUNT else tuple(parameter.shape)
        dtype = torch.float32 if key == _COUNT else parameter.dtype
        if tuple(value.shape) != shape or value.dtype != dtype:
            raise CheckpointError(
                f"the optimiser's state {name}::{key} is {tuple(value.shape)} of {value.dtype}, "
                f"expected {shape} of {dtype}: the file is damaged, or of another model"
            )
