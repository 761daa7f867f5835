"""Whether gradients are cleared before those of the next update arrive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from pellucid.vitals.async_metrics import AsyncMetrics
from pellucid.vitals.step_signs import rms, sample
from pellucid.vitals.taps.hooks import Hooks


def cleared_by(optimisers: Sequence[torch.optim.Optimizer]) -> nn.Parameter | None:
    """A parameter that an optimiser clears; None where none has any that is trained."""
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            for parameter in cast("list[nn.Parameter]", group["params"]):
                if parameter.requires_grad:
                    return parameter
    return None


class ZeroGradCheck:
    """Looks at the first gradient of some updates, before it is added to what is there."""

    def __init__(self, parameter: nn.Parameter | None) -> None:
        self._parameter = parameter
        self._done = 0
        self._first = True
        self._left: Tensor | None = None

    def attach(self, hooks: Hooks) -> None:
        """Listen to the parameter, where there is one."""
        if self._parameter is not None and self._parameter.requires_grad:
            hooks.on(cast("Any", self._parameter).register_hook, "gradient.left", self._arrives)

    def put(self, tape: AsyncMetrics) -> None:
        """Put what was found on the tape."""
        if self._left is not None:
            tape.put("gradient.left", self._left)

    def stepped(self) -> None:
        """An update is done: what comes next should find nothing."""
        self._done += 1
        self._first, self._left = True, None

    @torch.no_grad()
    def _arrives(self, gradient: Tensor) -> None:
        # before the first update there may be a gradient from before the watch
        if not self._first or (self._done != 4 and self._done % 10 != 9):
            return
        self._first = False
        previous = None if self._parameter is None else self._parameter.grad
        if previous is None or previous.is_sparse or gradient.is_sparse:
            self._left = torch.zeros((), device=gradient.device)
            return
        arriving = rms(sample(gradient).float()).clamp(min=1e-30)
        self._left = rms(sample(previous).float()) / arriving
