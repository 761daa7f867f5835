"""One call of a model as a training makes it, without a training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.training import Guard
from pellucid.typed import backward
from pellucid.vitals.async_metrics import AsyncMetrics
from pellucid.vitals.call.first_call import FirstCallProbe
from pellucid.vitals.model_parts import unwrap
from pellucid.vitals.record import Record
from pellucid.vitals.rules import rules_of
from pellucid.vitals.taps.first_batch import FirstBatch
from pellucid.vitals.taps.hooks import Hooks
from pellucid.vitals.verdicts import VerdictTracker


def probe_call(
    model: nn.Module,
    batch: Mapping[str, Any],
    guard: Guard,
    loss: Callable[[nn.Module, Mapping[str, Any]], Any] | None = None,
) -> Record:
    """The signs of one call, as `watch` takes them of a loop's first one.

    It leaves gradients in the model: call it on copies.

    Args:
        model: The model, in the mode of training.
        batch: The arguments of the call.
        guard: Switches off a test that raises.
        loss: Computes the loss of the model on the batch, with its own call; by default the model
            is called with the batch, and its own loss counts.
    """
    model = unwrap(model)
    first, metrics = FirstBatch(model), AsyncMetrics(guard)
    with Hooks(guard) as hooks, torch.enable_grad():
        first.attach(model, hooks)
        returned = model(**batch) if loss is None else loss(model, batch)
        value = returned if isinstance(returned, Tensor) else getattr(returned, "loss", None)
        if isinstance(value, Tensor) and value.ndim == 0 and value.requires_grad:
            backward(value)  # the hook on the logits reads their gradient
    FirstCallProbe(guard, model, enabled=True).run(model, first, metrics)
    metrics.turn(1)
    arrived = metrics.read()
    tracker = VerdictTracker(rules_of(), guard)
    if arrived is not None:
        tracker.read(*arrived)
    return tracker.record
