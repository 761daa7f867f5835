"""The reference of a run: the model that it started from, which is not trained."""

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


def reference_model(inputs: TaskInputs) -> Reference:
    """The model of the start: the trained model without its adapters if it has any, else a copy.

    With adapters one model is in memory, and without them two.
    """
    if adapters(inputs.model):
        return _disable_adapters
    with torch.device("meta"):
        copy = assemble(inputs.run.model, seed=0)
    fill(copy, load_model_tensors(inputs.folder.start), inputs.model.device)
    # the same rounding, so that both models are equal at the start
    attend_by(copy, kernel_of(inputs.model))
    return frozen_reference(copy.eval().requires_grad_(False))


@contextmanager
def _disable_adapters(model: Transformer) -> Generator[Transformer]:
    with without_adapters(model):
        yield model
