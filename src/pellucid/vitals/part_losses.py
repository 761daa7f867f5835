"""The losses of an update's parts, until the update is done."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import torch
from torch import Tensor

from pellucid.training import silently
from pellucid.vitals.async_metrics import AsyncMetrics
from pellucid.vitals.taps.first_batch import FirstBatch

#: So many losses of an update's parts are kept, at most.
_MAX_LOSSES = 4096


class Losses:
    """Those handed over come before those the model gave."""

    def __init__(self) -> None:
        #: losses that were handed over so far
        self.told = 0
        self._given: deque[Tensor] = deque(maxlen=_MAX_LOSSES)

    def add(self, loss: Tensor | float) -> None:
        """Take one; it is not waited for. Of several numbers their mean is taken."""
        self.told += 1
        with silently():
            is_tensor = isinstance(loss, Tensor)
            value = loss.detach() if is_tensor else torch.tensor(float(loss), device="cpu")
            self._given.append(value.float().mean())

    def put(self, tape: AsyncMetrics, capture: FirstBatch | None) -> None:
        """Write the loss of the update that is done, where there is one."""
        step_losses, model_losses = (
            list(self._given),
            [] if capture is None else list(capture.losses),
        )
        adds_up = not step_losses and capture is not None and capture.adds_up
        self._given.clear()
        if capture is not None:
            capture.losses.clear()
        losses = step_losses or model_losses
        if losses:
            tape.put("loss", lambda: _together(losses, adds_up=adds_up))


def _together(losses: Sequence[Tensor], *, adds_up: bool) -> Tensor:
    device = losses[0].device
    together = torch.stack([loss.to(device, torch.float32) for loss in losses])
    return together.sum() if adds_up else together.mean()
