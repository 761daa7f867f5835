"""The losses of an update's parts, until the update is done.

Comes in: losses that a loop hands over, or that the model gave. Goes out: one number for the
update, on a tape. It does not know what is to be thought of it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pellucid.vitals.capture import Capture
from pellucid.vitals.tape import Tape


class Losses:
    """Those handed over come before those the model gave."""

    def __init__(self) -> None:
        #: losses that were handed over so far
        self.told = 0
        self._given: list[Tensor] = []

    def add(self, loss: Tensor | float) -> None:
        """Take one; it is not waited for."""
        self.told += 1
        self._given.append(loss.detach() if isinstance(loss, Tensor) else torch.tensor(float(loss)))

    def put(self, tape: Tape, capture: Capture | None) -> None:
        """Write the loss of the update that is done, where there is one."""
        found = self._given or ([] if capture is None else capture.losses)
        if found:
            together = torch.stack([loss.float() for loss in found])
            adds_up = not self._given and capture is not None and capture.adds_up
            tape.put("loss", together.sum() if adds_up else together.mean())
        self._given.clear()
        if capture is not None:
            capture.losses.clear()
