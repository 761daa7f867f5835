"""Whether gradients are cleared before the next update's gradients arrive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from pellucid.vitals.async_metrics import AsyncMetrics
from pellucid.vitals.step_signs import rms, sample
from pellucid.vitals.taps.hooks import Hooks


def cleared_by(optimisers: Sequence[torch.optim.Optimizer]) -> nn.Parameter | None:
    """A trained parameter that an optimiser clears; None if there is none."""
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            for parameter in cast("list[nn.Parameter]", group["params"]):
                if parameter.requires_grad:
                    return parameter
    return None


class ZeroGradCheck:
    """Checks the first gradient of some updates, before it is added to the old one."""

    def __init__(self, parameter: nn.Parameter | None) -> None:
        self._parameter = parameter
        self._n_updates = 0
        self._first = True
        self._left: Tensor | None = None

    def attach(self, hooks: Hooks) -> None:
        """Add a hook to the parameter, if it is trained."""
        if self._parameter is not None and self._parameter.requires_grad:
            hooks.register(
                cast("Any", self._parameter).register_hook, "gradient.left", self._arrives
            )

    def record(self, metrics: AsyncMetrics) -> None:
        """Record the share of an old gradient that was left."""
        if self._left is not None:
            metrics.record("gradient.left", self._left)

    def stepped(self) -> None:
        """An update is done: the next gradient should find none."""
        self._n_updates += 1
        self._first, self._left = True, None

    @torch.no_grad()
    def _arrives(self, gradient: Tensor) -> None:
        # before the first update there may be a gradient from before the watch
        if not self._first or (self._n_updates != 4 and self._n_updates % 10 != 9):
            return
        self._first = False
        previous = None if self._parameter is None else self._parameter.grad
        if previous is None or previous.is_sparse or gradient.is_sparse:
            self._left = torch.zeros((), device=gradient.device)
            return
        new_size = rms(sample(gradient).float()).clamp(min=1e-30)
        self._left = rms(sample(previous).float()) / new_size
