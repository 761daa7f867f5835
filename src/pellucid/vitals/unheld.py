"""Trained weights that no watched optimiser holds: whether something moves them all the same.

Comes in: weights and optimisers. Goes out: names. It does not know what moves them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

#: Numbers of a weight that are added up, spread over it.
_SAMPLED = 65536


class UnheldWeights:
    """What the weights in no optimiser were at first.

    A loop may train a part by another optimiser, which the watch was not given.

    Args:
        parameters: The trained weights by name.
        optimisers: Those that are watched.
    """

    def __init__(
        self, parameters: Mapping[str, nn.Parameter], optimisers: Sequence[Optimizer]
    ) -> None:
        groups = [group for optimiser in optimisers for group in optimiser.param_groups]
        watched_ids = {id(parameter) for group in groups for parameter in group["params"]}
        self._weights = {
            name: parameter
            for name, parameter in parameters.items()
            if id(parameter) not in watched_ids
        }
        # without an optimiser the loop alone knows what steps
        self._sums = {n: _sums(p) for n, p in self._weights.items()} if optimisers else {}

    def names_of_moved(self) -> tuple[str, ...]:
        """The names of those that are no longer as they were."""
        return tuple(name for name in self._sums if not self._is_unmoved(name))

    def names_of_unmoved(self) -> tuple[str, ...]:
        """The names of those that are still as they were."""
        return tuple(name for name in self._sums if self._is_unmoved(name))

    def _is_unmoved(self, name: str) -> bool:
        return torch.equal(self._sums[name], _sums(self._weights[name]))


@torch.no_grad()
def _sums(weights: Tensor) -> Tensor:
    """The sums of numbers and of their squares; a sum that is not finite equals itself."""
    numbers = weights.flatten()
    numbers = numbers[:: max(1, len(numbers) // _SAMPLED)].double()
    return torch.stack([numbers.sum(), numbers.square().sum()]).nan_to_num()
