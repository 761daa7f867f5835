"""What a watch has seen, for those who look for causes.

Comes in: the parts of a watch. Goes out: one tuple of them. It does not know causes.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from pellucid.vitals.model_parts import Anatomy
from pellucid.vitals.probe import Probe
from pellucid.vitals.verdicts import VerdictTracker


class Seen(NamedTuple):
    """Signs so far (`judge.record` has them in order), the model's parts, whose steps they were.

    `told` is how many losses were handed over.
    """

    judge: VerdictTracker
    anatomy: Anatomy
    optimisers: tuple[torch.optim.Optimizer, ...]
    probe: Probe | None
    told: int
