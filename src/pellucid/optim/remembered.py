"""The state that each optimiser keeps for a parameter, and a check of saved states."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from pellucid.errors import CheckpointError
from pellucid.optim.muon import Muon
from pellucid.rounded_weights import is_rounded

#: The count of updates; every other tensor has the shape of its parameter.
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
            raise TypeError(f"the state of {type(part).__name__} is unknown")


def check_state(
    name: str, state: Mapping[str, Tensor], part: torch.optim.Optimizer, parameter: nn.Parameter
) -> None:
    """Refuse a saved state that does not fit the optimiser and its parameter.

    Args:
        name: the parameter's name, for messages.
        state: the saved tensors by key.
        part: the optimiser that is to use them.
        parameter: the parameter.

    Raises:
        CheckpointError: names the tensor, its shape and type, and the expected ones.
    """
    keys = _keys(part)
    if sorted(state) != sorted(keys):
        raise CheckpointError(
            f"the optimiser's state of {name} has {', '.join(sorted(state))}, expected "
            f"{', '.join(keys)}: the file is damaged, or of another optimiser"
        )
    for key, value in state.items():
        shape = () if key == _COUNT else tuple(parameter.shape)
        is_wide = key == _COUNT or is_rounded(parameter)
        dtype = torch.float32 if is_wide else parameter.dtype
        if tuple(value.shape) != shape or value.dtype != dtype:
            raise CheckpointError(
                f"the optimiser's state {name}::{key} is {tuple(value.shape)} of {value.dtype}, "
                f"expected {shape} of {dtype}: the file is damaged, or of another model"
            )
