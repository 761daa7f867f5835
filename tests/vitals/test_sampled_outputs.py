"""Gradients of outputs are measured at some places, which stand for all."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from pellucid.training import Guard
from pellucid.vitals.ledger.output_gradients import OutputGradients
from pellucid.vitals.ledger.pulls import places_and_stride
from pellucid.vitals.taps.outputs import GradientHandle


@pytest.mark.parametrize("time", [44, 48, 64, 100, 7, 1])
def test_sampled_places_are_of_all_columns(time: int) -> None:
    places, stride = places_and_stride(torch.zeros(16, time, 5))
    assert len(places) == 16 * time
    assert math.gcd(stride, time) == 1
    columns = {place % time for place in range(0, len(places), stride)}
    assert len(columns) >= min(time, 32)


def test_the_sum_over_padded_rows_is_that_of_the_places_that_are_paid_for() -> None:
    draws = torch.Generator().manual_seed(0)
    logits = torch.randn(16, 44, 30, generator=draws, requires_grad=True)
    labels = torch.randint(30, (16, 44), generator=draws)
    lengths = torch.randint(12, 20, (16, 1), generator=draws)
    labels[torch.arange(44) >= lengths] = -100
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    (gradient,) = torch.autograd.grad(loss, logits)
    outputs = OutputGradients(Guard())
    outputs.records = outputs.measures_outputs = True
    outputs.measure_tokens(None, gradient)
    (total,) = outputs.sizes
    assert float(total) == pytest.approx(float(gradient.abs().sum()), rel=0.05)


@pytest.mark.parametrize(
    ("weights", "low", "high"),
    [(None, 0.99, 1.01), ([0.5, 1.5, 3.0], 0.1, 1.0), ([3.0, 1.0, 0.1], 10.0, 1e3)],
)
def test_weights_of_the_classes_of_tokens_show(
    weights: list[float] | None, low: float, high: float
) -> None:
    draws = torch.Generator().manual_seed(0)
    outputs = OutputGradients(Guard())
    outputs.records = outputs.measures_outputs = True
    for _ in range(8):
        logits = torch.randn(8, 21, 3, generator=draws, requires_grad=True)
        labels = torch.tensor([0, 0, 0, 0, 1, 1, 2])[torch.randint(7, (8, 21), generator=draws)]
        outputs.watch(logits, None)
        weight = None if weights is None else torch.tensor(weights)
        torch.nn.functional.cross_entropy(logits.transpose(1, 2), labels, weight).backward()
    assert low < float(dict(outputs.take_signs())["targets.class_weights"]) < high


class Fused(torch.autograd.Function):
    """A call and its loss in one graph, as `torch.compile` makes them: no gradient of outputs."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor) -> tuple[Tensor, Tensor]:
        return 2 * logits, logits.sum()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[1].expand(2, 3, 4)


def test_outputs_without_a_gradient_are_left_alone() -> None:
    outputs, loss = Fused.apply(torch.ones(2, 3, 4, requires_grad=True))  # type: ignore[misc]
    taken: list[Tensor] = []
    handle = GradientHandle(outputs, taken.append)
    loss.backward()
    handle.remove()
    assert taken == []


def test_heads_of_other_sizes_are_not_mixed() -> None:
    draws = torch.Generator().manual_seed(0)
    guard = Guard()
    outputs = OutputGradients(guard)
    outputs.records = outputs.measures_outputs = True
    for n_classes in (4, 2, 4, 2):
        logits = torch.randn(16, 9, n_classes, generator=draws, requires_grad=True)
        labels = torch.arange(16 * 9).view(16, 9) % n_classes
        outputs.watch(logits, None)
        torch.nn.functional.cross_entropy(logits.transpose(1, 2), labels).backward()
    assert guard.off == {}
    assert 0.9 < float(dict(outputs.take_signs())["targets.class_weights"]) < 1.1
