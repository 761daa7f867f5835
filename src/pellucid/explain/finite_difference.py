"""Move one weight a little up and down, and measure the loss: a check of its gradient.

A model of up to fifty million weights is copied in float64, so that rounding does not hide a small
difference. A larger one keeps its own precision, and one matrix is exchanged during the pass.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call

from pellucid.explain.backward_segments import is_large
from pellucid.explain.outputs import widen
from pellucid.explain.selection import SelectedWeight
from pellucid.explain.trace_types import Trace


def precision(trace: Trace) -> torch.dtype:
    """The precision of the losses."""
    return widen(trace["logits"][:1]).dtype if is_large(trace) else torch.float64


def choose_step(trace: Trace, weight: SelectedWeight) -> float:
    """How far to move: the cube root of the rounding, by the size of the weight.

    Source:
        Press et al. 2007, "Numerical Recipes", section 5.7, eq. 5.7.8 (central differences).
    """
    size = abs(float(trace[weight.address()]))
    return float(torch.finfo(precision(trace)).eps ** (1 / 3) * max(1.0, size))


@torch.no_grad()
def losses(trace: Trace, weight: SelectedWeight, moves: Sequence[float]) -> list[float]:
    """The sentence's loss with the weight moved by each of `moves`; the model is left alone."""
    model = trace.model if is_large(trace) else copy.deepcopy(trace.model).double()
    sentence_loss = _SentenceLoss(model, trace)
    matrix = dict(model.named_parameters())[weight.name].detach()
    moved_losses: list[float] = []
    for move in moves:
        moved_matrix = matrix.clone()
        moved_matrix[weight.index] += move
        loss = functional_call(
            cast("Any", sentence_loss), {f"model.{weight.name}": moved_matrix}, ()
        )
        moved_losses.append(float(cast("Tensor", loss)))
    return moved_losses


class _SentenceLoss(nn.Module):
    """A model, as a function from nothing to the loss of one sentence."""

    def __init__(self, model: nn.Module, trace: Trace) -> None:
        super().__init__()
        self.model = model
        # a list: a module would count what it holds among its parts
        self.traces = [trace]

    def forward(self) -> Tensor:
        """The loss."""
        trace = self.traces[0]
        return trace.with_model(cast("Any", self.model))["loss"].double()
