"""What a watch has seen, for those who look for causes.

Comes in: the parts of a watch. Goes out: one tuple of them. It does not know causes.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from pellucid.vitals.anatomy import Anatomy
from pellucid.vitals.judge import Judge
from pellucid.vitals.probe import Probe


class Seen(NamedTuple):
    """Signs so far (`judge.record` has them in order), the model's parts, whose steps they were.

    `told` is how many losses were handed over.
    """

    judge: Judge
    anatomy: Anatomy
    optimisers: tuple[torch.optim.Optimizer, ...]
    probe: Probe | None
    told: int
