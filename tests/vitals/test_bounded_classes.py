"""Outputs of classes that a sigmoid, a tanh or a ReLU bounds before the softmax of the loss."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from pellucid.diagnosis.finding import limit
from pellucid.vitals.ledger.bounded_classes import (
    bound_sums,
    highest_share,
    mean_nats,
    share_cut_off,
)
from pellucid.vitals.ledger.pulls import smoothing_of_rows
from pellucid.vitals.ledger.row_losses import RowLosses, hard_classes, named_classes

ROWS, CALLS = 16, 8
Bound = Callable[[Tensor], Tensor]
Loss = Callable[[Tensor, Tensor], Tensor]


def outputs_of(bound: Bound, size: float, n_classes: int, shift: float = 0.0) -> list[Tensor]:
    draws = torch.Generator().manual_seed(2)
    return [
        bound(shift + size * torch.randn(ROWS, n_classes, generator=draws)).requires_grad_()
        for _ in range(CALLS)
    ]


def gradient_of(outputs: Tensor, loss: Loss = cross_entropy) -> Tensor:
    labels = torch.arange(ROWS) % outputs.shape[1]
    return torch.autograd.grad(loss(outputs, labels), outputs)[0]


def sums_of(outputs: list[Tensor], loss: Loss = cross_entropy) -> Tensor:
    rows = list[Tensor]()
    for z in outputs:
        g = gradient_of(z, loss)
        rows.append(bound_sums(g, z.detach(), hard_classes(g, z.detach(), named_classes(g))))
    return torch.stack(rows)


@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize(
    ("bound", "size", "reach"),
    [(torch.sigmoid, 0.5, 1.0), (torch.sigmoid, 8.0, 1.0), (torch.tanh, 4.0, 2.0)],
)
def test_a_bound_leaves_no_class_much(
    bound: Bound, size: float, reach: float, n_classes: int
) -> None:
    most = float(highest_share(sums_of(outputs_of(bound, size, n_classes))))
    expected = torch.tensor([reach] + [0.0] * (n_classes - 1)).softmax(0)[0]
    assert most == pytest.approx(float(expected))
    assert most < limit("LOS038", "classes")


@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize(
    ("bound", "size", "shift"),
    [
        (lambda z: z, 0.02, 0.05),  # a bias, and features that are still small
        (lambda z: z, 0.2, 0.0),
        (lambda z: z, 4.0, 0.0),
        (lambda z: 30 * torch.tanh(z / 30), 9.0, 0.0),
        (torch.tanh, 0.5, 0.0),  # far from its bounds
        (lambda z: torch.zeros_like(z), 1.0, 0.0),
    ],
)
def test_logits_are_free(bound: Bound, size: float, shift: float, n_classes: int) -> None:
    sums = sums_of(outputs_of(bound, size, n_classes, shift))
    assert highest_share(sums) == 1
    assert share_cut_off(sums) == 0


def test_a_relu_leaves_outputs_at_zero() -> None:
    sums = sums_of(outputs_of(torch.relu, 1.0, 5))
    assert float(share_cut_off(sums)) == pytest.approx(0.5, abs=0.05)
    assert highest_share(sums) == 1


def test_another_loss_of_such_outputs_is_sound() -> None:
    def binary(outputs: Tensor, labels: Tensor) -> Tensor:
        ones = nn.functional.one_hot(labels, outputs.shape[1]).float()
        return nn.functional.binary_cross_entropy(outputs, ones)

    assert highest_share(sums_of(outputs_of(torch.sigmoid, 1.0, 5), binary)) == 1


def test_few_outputs_say_nothing() -> None:
    sums = sums_of(outputs_of(torch.sigmoid, 1.0, 2))
    assert highest_share(sums[:4]) == 1


@pytest.mark.parametrize("are_known", [False, True])
def test_rows_are_read_with_and_without_labels(are_known: bool) -> None:
    losses = RowLosses()
    for z in outputs_of(torch.sigmoid, 1.0, 5):
        labels = torch.arange(ROWS) % 5 if are_known else None
        losses.measure(gradient_of(z), z.detach(), labels)
    signs = losses.take_signs()
    assert float(signs["logits.class_most"]) < limit("LOS038", "classes")
    assert "logits.class_most" not in losses.take_signs()


def smoothed(share: float) -> Loss:
    return lambda z, labels: cross_entropy(z, labels, label_smoothing=share)


def weighted(z: Tensor, labels: Tensor) -> Tensor:
    return cross_entropy(z, labels, torch.linspace(1, 5, z.shape[1]))


def soft(z: Tensor, labels: Tensor) -> Tensor:
    draws = torch.Generator().manual_seed(1)
    return cross_entropy(z, torch.rand(z.shape, generator=draws).softmax(-1))


@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize(
    ("loss", "share"), [(smoothed(0.9), 0.9), (smoothed(0.1), 0.1), (cross_entropy, 0), (soft, 0)]
)
def test_the_share_that_labels_lose_to_all_classes_is_read_off(
    loss: Loss, share: float, n_classes: int
) -> None:
    z = outputs_of(lambda z: z, 1.0, n_classes)[0]
    assert float(smoothing_of_rows(gradient_of(z, loss), z.detach())) == pytest.approx(share)


def test_the_cross_entropy_of_a_plain_mean_is_known() -> None:
    z, labels = outputs_of(lambda z: z, 1.0, 5)[0], torch.arange(ROWS) % 5
    plain = float(cross_entropy(z.detach(), labels))
    assert float(mean_nats(gradient_of(z), z.detach(), labels)) == pytest.approx(plain)
    others = (weighted, smoothed(0.9), lambda z, labels: 2 * cross_entropy(z, labels))
    for loss in others:
        assert mean_nats(gradient_of(z, loss), z.detach(), labels).isnan()
    unlabelled = labels.where(labels > 0, -100)
    gradient = gradient_of(z, lambda z, _: cross_entropy(z, unlabelled))
    expected = float(cross_entropy(z.detach(), unlabelled))
    assert float(mean_nats(gradient, z.detach(), unlabelled)) == pytest.approx(expected)
