"""Whether the parts of a model that know positions are given different ones."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor, nn

#: Names of modules that take the positions of tokens, or their distances.
_NAMES = re.compile(r"(?<![a-z])pos(?!t)|position|rotary|rope|wpe|relative")
#: Rows with fewer places say nothing.
_FEWEST = 4


class PositionNotes:
    """Notes the positions that each module reads in one forward pass.

    Args:
        inputs: (rows, time, ...) of the call.
    """

    def __init__(self, inputs: Tensor) -> None:
        self._time = inputs.shape[1] if inputs.ndim > 1 else 0
        self._constant: dict[str, float] = {}

    def note(self, name: str, module: nn.Module, arguments: Any) -> None:
        """Note the arguments of a module, if its name says that it takes positions."""
        words = f"{name.rpartition('.')[2]} {type(module).__name__}".lower()
        if self._time < _FEWEST or not _NAMES.search(words):
            return
        for tensor in arguments:
            if _is_positions(tensor, self._time):
                rows = tensor.reshape(-1, self._time)
                equal = (rows == rows[:, :1]).all(1).double().mean()
                self._constant[name] = min(float(equal), self._constant.get(name, 1.0))

    def signs(self) -> dict[str, float]:
        """The share of rows whose tokens all have one position, the least of the modules."""
        shares = self._constant.values()
        return {"call.one_position": min(shares)} if shares else {}


def _is_positions(tensor: Any, time: int) -> bool:
    if not isinstance(tensor, Tensor) or tensor.ndim == 0 or tensor.dtype == torch.bool:
        return False
    return not tensor.is_floating_point() and tensor.shape[-1] == time
