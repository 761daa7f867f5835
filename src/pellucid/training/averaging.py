"""The moving average of a model's weights: it takes their place when the model is used."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

#: The key of the trained weights in a checkpoint whose model has the averages.
TRAINED = "::trained"
#: The key of the averages, where the model has its trained weights.
AVERAGED = "::averaged"


class WeightAverage:
    """An exponential moving average over all updates.

    average <- d average + (1 - d) weight,  d = min(decay, (1 + step) / (10 + step))

    Running statistics of norms are averaged too. Frozen weights do not move, and need none.

    Args:
        model: the trained model.
        decay: the share of the average that an update leaves.

    Source:
        Polyak and Juditsky 1992, "Acceleration of Stochastic Approximation by Averaging"; the
        first updates count for more, as in TensorFlow's `ExponentialMovingAverage`.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._decay = decay
        self._weights = {
            name: tensor.detach()
            for name, tensor in (*model.named_parameters(), *model.named_buffers())
            if tensor.requires_grad or name.endswith(("running_mean", "running_var"))
        }
        self._averages = {name: weight.clone() for name, weight in self._weights.items()}
        self._has_swapped = False

    @torch.no_grad()
    def update(self, step: int, blocked: Tensor) -> None:
        """Take in the update that follows `step` updates; a blocked one does not count."""
        decay = min(self._decay, (1 + step) / (10 + step))
        share = (1 - decay) * (blocked == 0).float()
        for name, weight in self._weights.items():
            self._averages[name].lerp_(weight, share.to(weight.dtype))

    @contextmanager
    def swapped(self) -> Generator[None]:
        """Within it, the model has the averages."""
        self._swap()
        self._has_swapped = True
        try:
            yield
        finally:
            self._swap()
            self._has_swapped = False

    def tensors(self) -> dict[str, Tensor]:
        """The weights that the model does not have now: trained ones within `swapped`."""
        key = TRAINED if self._has_swapped else AVERAGED
        return {f"{name}{key}": tensor for name, tensor in self._averages.items()}

    @torch.no_grad()
    def restore(self, trained: Mapping[str, Tensor]) -> None:
        """Take the averages from the model, which gets its trained weights.

        Args:
            trained: what `tensors` gave; empty if the checkpoint has no averages.
        """
        for name, weight in self._weights.items():
            self._averages[name].copy_(weight)
            if trained:
                weight.copy_(trained[f"{name}{TRAINED}"])

    @torch.no_grad()
    def _swap(self) -> None:
        for name, weight in self._weights.items():
            trained = weight.clone()
            weight.copy_(self._averages[name])
            self._averages[name].copy_(trained)


def split_trained(optimiser: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The optimiser's own tensors of a checkpoint, and the trained weights among them."""
    trained = {name: value for name, value in optimiser.items() if name.endswith(TRAINED)}
    return {name: value for name, value in optimiser.items() if name not in trained}, trained


def with_trained(model: Mapping[str, Tensor], trained: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a checkpoint's model, with its trained weights in place of the averages."""
    weights = {name.removesuffix(TRAINED): tensor for name, tensor in trained.items()}
    return {**model, **weights}
