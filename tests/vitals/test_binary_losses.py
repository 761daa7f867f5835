"""Losses whose columns each have a label of their own, known by their gradient."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from pellucid.vitals.ledger import binary_losses

ROWS = 16
Loss = Callable[[Tensor, Tensor], Tensor]
plain: Loss = F.binary_cross_entropy_with_logits


def outputs_of(columns: int, size: float = 0.3) -> Tensor:
    draws = torch.Generator().manual_seed(5)
    return (size * torch.randn(ROWS, columns, generator=draws)).requires_grad_()


def labels_of(columns: int) -> Tensor:
    return (torch.rand(ROWS, columns, generator=torch.Generator().manual_seed(6)) < 0.3).float()


def gradient_of(loss: Loss, outputs: Tensor, labels: Tensor) -> Tensor:
    return torch.autograd.grad(loss(outputs, labels), outputs)[0]


def squashed(outputs: Tensor, labels: Tensor) -> Tensor:
    return plain(outputs.sigmoid(), labels)


def weighted(outputs: Tensor, labels: Tensor) -> Tensor:
    weights = torch.linspace(1, 9, outputs.shape[1])
    return F.binary_cross_entropy_with_logits(outputs, labels, pos_weight=weights)


def focal(outputs: Tensor, labels: Tensor) -> Tensor:
    nats = F.binary_cross_entropy_with_logits(outputs, labels, reduction="none")
    return ((1 - (-nats).exp()) ** 2 * nats).mean()


def squared(outputs: Tensor, labels: Tensor) -> Tensor:
    return (outputs - labels).square().mean()


def one_softmax(outputs: Tensor, labels: Tensor) -> Tensor:
    return -(labels * outputs.log_softmax(-1)).sum(-1).mean()


def shared_softmax(outputs: Tensor, labels: Tensor) -> Tensor:
    return one_softmax(outputs, labels / labels.sum(-1, keepdim=True).clamp_min(1))


@pytest.mark.parametrize("columns", [1, 4])
@pytest.mark.parametrize(
    ("loss", "is_squashed"),
    [(squashed, True), (plain, False), (weighted, False), (focal, False), (squared, False)],
)
def test_a_sigmoid_before_the_sigmoid_shows(loss: Loss, is_squashed: bool, columns: int) -> None:
    outputs = outputs_of(columns)
    gradient = gradient_of(loss, outputs, labels_of(columns))
    assert bool(binary_losses.sigmoid_twice(gradient, outputs.detach())) == is_squashed


def test_a_margin_between_small_outputs_is_no_sigmoid_of_a_sigmoid() -> None:
    outputs, labels = outputs_of(4), labels_of(4)
    gradient = gradient_of(lambda x, y: F.relu(1 - x * (2 * y - 1)).mean(), outputs, labels)
    assert not binary_losses.sigmoid_twice(gradient, 1e-4 * outputs.detach())


@pytest.mark.parametrize("columns", [1, 4])
def test_weights_of_positive_labels_are_read_off(columns: int) -> None:
    outputs, labels = outputs_of(columns), labels_of(columns)
    counts = labels.sum(0)
    for weight in (1.0, 300.0):

        def loss(outputs: Tensor, labels: Tensor, weight: float = weight) -> Tensor:
            weights = torch.full((columns,), weight)
            return F.binary_cross_entropy_with_logits(outputs, labels, pos_weight=weights)

        sums = binary_losses.label_weights(gradient_of(loss, outputs, labels), outputs.detach())
        by_weights = torch.stack([ROWS - counts, counts * weight])
        by_rows = torch.stack([ROWS - counts, counts])
        expected = (by_weights.amax(0) / by_weights.amin(0)) / (by_rows.amax(0) / by_rows.amin(0))
        factor = binary_losses.unevenness_of_labels(sums)
        assert float(factor) == pytest.approx(float(expected.median()), rel=1e-3)


def test_another_loss_says_nothing_of_weights() -> None:
    outputs = outputs_of(4)
    for loss in (focal, squared, squashed):
        sums = binary_losses.label_weights(
            gradient_of(loss, outputs, labels_of(4)), outputs.detach()
        )
        assert float(binary_losses.unevenness_of_labels(sums)) == 0


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_numbers_of_classes_are_no_binary_labels(reduction: str) -> None:
    outputs = outputs_of(1)
    classes = (torch.arange(ROWS) % 4).float()[:, None]

    def loss(outputs: Tensor, labels: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(outputs, labels, reduction=reduction)

    for labels, share in ((classes, 0.5), (labels_of(1), 0.0), (labels_of(1) * 0.8, 0.0)):
        gradient = gradient_of(loss, outputs, labels)
        assert float(binary_losses.impossible_labels(gradient, outputs.detach())) == share


def test_whole_numbers_as_targets_of_a_squared_error_are_fine() -> None:
    outputs = outputs_of(1)
    gradient = gradient_of(squared, outputs, (torch.arange(ROWS) % 4).float()[:, None])
    assert float(binary_losses.impossible_labels(gradient, outputs.detach())) == 0


def halved_softmax(outputs: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(outputs, labels) / 2


@pytest.mark.parametrize(
    ("loss", "labels"),
    [
        (halved_softmax, torch.arange(ROWS) % 4),
        (squared, ((torch.arange(ROWS) % 4).float() / 2 + 0.25)[:, None]),
    ],
)
def test_other_losses_of_equal_outputs_have_no_impossible_labels(
    loss: Loss, labels: Tensor
) -> None:
    outputs = outputs_of(1 if labels.is_floating_point() else 4, size=1e-3)
    gradient = gradient_of(loss, outputs, labels)
    assert float(binary_losses.impossible_labels(gradient, outputs.detach())) == 0


def test_a_margin_that_is_far_off_has_no_labels() -> None:
    outputs = torch.tensor([[9.0], [-9.0]] * 8, requires_grad=True)
    better, worse = outputs[:, 0].view(-1, 2).unbind(1)
    (gradient,) = torch.autograd.grad(-F.logsigmoid(better - worse - 60).mean(), outputs)
    assert float(binary_losses.impossible_labels(gradient, outputs.detach())) == 0


def test_several_labels_under_one_softmax_show() -> None:
    outputs, labels = outputs_of(5), labels_of(5)
    labels[:4] = F.one_hot(torch.arange(4), 5).float()
    n = labels.sum(-1)
    several = float(((n > 1) & (n < 5)).double().mean())
    gradient = gradient_of(one_softmax, outputs, labels)
    assert float(binary_losses.several_labels(gradient, outputs.detach())) == several > 0


def test_three_rows_are_enough_to_show_several_labels() -> None:
    outputs = outputs_of(5)
    labels = torch.zeros(len(outputs), 5)
    labels[0, 1] = labels[1, :2] = labels[2, 2:] = 1.0
    for n, is_shown in ((3, True), (2, False)):
        part = outputs[:n].detach().requires_grad_()
        gradient = gradient_of(one_softmax, part, labels[:n])
        assert (float(binary_losses.several_labels(gradient, part.detach())) > 0) == is_shown


def test_labels_that_share_a_row_are_fine() -> None:
    outputs, labels = outputs_of(5), labels_of(5)
    one_hot = F.one_hot(torch.arange(ROWS) % 5, 5).float()
    mixed = 0.5 * one_hot + 0.5 * one_hot.roll(1, 0)
    cases = (
        (shared_softmax, labels),
        (one_softmax, one_hot),
        (one_softmax, mixed),
        (one_softmax, 0.9 * one_hot + 0.02),
        (plain, labels),
    )
    for loss, targets in cases:
        gradient = gradient_of(loss, outputs, targets)
        assert float(binary_losses.several_labels(gradient, outputs.detach())) == 0


def test_outputs_that_are_all_equal_say_nothing_of_weights_of_labels() -> None:
    labels = labels_of(1)
    for outputs, is_known in ((torch.full((ROWS, 1), 1.8), False), (outputs_of(1), True)):
        gradient = gradient_of(plain, outputs.detach().requires_grad_(), labels)
        sums = binary_losses.label_weights(gradient, outputs.detach())
        assert bool(sums.any()) == is_known


@pytest.mark.parametrize("size", [0.3, 3.0])
def test_one_label_of_each_row_in_a_binary_loss_is_a_class(size: float) -> None:
    outputs, classes = outputs_of(12, size), torch.arange(ROWS) % 12
    one_of_each = F.one_hot(classes, 12).float()
    several = labels_of(12)

    def is_exclusive(loss: Loss, labels: Tensor) -> bool:
        gradient = gradient_of(loss, outputs, labels)
        return bool(binary_losses.exclusive_labels(gradient, outputs.detach()))

    assert is_exclusive(plain, one_of_each)
    assert not is_exclusive(plain, several)
    assert not is_exclusive(one_softmax, one_of_each)
    assert not is_exclusive(squared, one_of_each)


def test_a_row_whose_probabilities_add_up_to_1_is_no_softmax() -> None:
    outputs = outputs_of(12)
    with torch.no_grad():
        outputs[0] = torch.logit(torch.tensor(1 / 12))
    labels = F.one_hot(torch.arange(ROWS) % 12, 12).float()
    gradient = gradient_of(plain, outputs, labels)
    assert bool(binary_losses.exclusive_labels(gradient, outputs.detach()))


def test_few_columns_are_no_many_classes() -> None:
    outputs, labels = outputs_of(4), F.one_hot(torch.arange(ROWS) % 4, 4).float()
    gradient = gradient_of(plain, outputs, labels)
    assert not bool(binary_losses.exclusive_labels(gradient, outputs.detach()))
