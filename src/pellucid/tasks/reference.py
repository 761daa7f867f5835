"""The reference that a run is compared with: the model that it started from, asked and not trained.

Comes in: what a task is given. Goes out: a model at rest. It does not know what it is asked.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import torch

from pellucid.checkpoints import load_model_tensors
from pellucid.model import Transformer, adapters, assemble, without_adapters
from pellucid.objectives import Reference, frozen_reference
from pellucid.saved_runs.load import fill
from pellucid.tasks.task import TaskInputs
from pellucid.training.kernels import attend_by, kernel_of


def reference_of(given: TaskInputs) -> Reference:
    """The model as it was at the start: itself without its adapters, or else a copy.

    With adapters one model sits in memory, and without them two.
    """
    if adapters(given.model):
        return _without
    with torch.device("meta"):
        copy = assemble(given.run.model, seed=0)
    fill(copy, load_model_tensors(given.folder.start), given.model.device)
    # rounded alike, so that at the start the two are one
    attend_by(copy, kernel_of(given.model))
    return frozen_reference(copy.eval().requires_grad_(False))


def copied(given: TaskInputs) -> int:
    """How many parameters lie in memory a second time, for `reference_of`."""
    if adapters(given.model):
        return 0
    return sum(parameter.numel() for parameter in given.model.parameters())


@contextmanager
def _without(model: Transformer) -> Generator[Transformer]:
    with without_adapters(model):
        yield model
