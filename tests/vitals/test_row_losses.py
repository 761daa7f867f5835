"""Losses of one class, or of one number, for each row, known by their gradient."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from pellucid.batches import IGNORED
from pellucid.vitals.ledger import row_losses

ROWS = 12
Loss = Callable[[Tensor, Tensor], Tensor]


def logits_of(n_classes: int, seed: int = 3, size: float = 0.1) -> Tensor:
    draws = torch.Generator().manual_seed(seed)
    return (size * torch.randn(ROWS, n_classes, generator=draws)).requires_grad_()


def gradient_of(loss: Loss, logits: Tensor) -> tuple[Tensor, Tensor]:
    labels = torch.arange(ROWS) % logits.shape[1]
    (gradient,) = torch.autograd.grad(loss(logits, labels), logits)
    return gradient, labels


def focal(power: float) -> Loss:
    def loss(logits: Tensor, labels: Tensor) -> Tensor:
        nats = F.cross_entropy(logits, labels, reduction="none")
        return ((1 - (-nats).exp()) ** power * nats).mean()

    return loss


def robust(logits: Tensor, labels: Tensor) -> Tensor:
    """Generalised cross-entropy (Zhang and Sabuncu 2018)."""
    p = logits.softmax(-1).gather(1, labels[:, None])
    return ((1 - p**0.7) / 0.7).mean()


def of_softmax(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits.softmax(-1), labels)


def of_sigmoid(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits.sigmoid(), labels)


def weighted(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits, labels, torch.linspace(1, 5, logits.shape[1]))


def smoothed(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits, labels, label_smoothing=0.1)


@pytest.mark.parametrize("n_classes", [2, 3, 20])
@pytest.mark.parametrize("loss", [F.cross_entropy, of_softmax, weighted, smoothed])
def test_the_gradient_names_the_class_of_each_row(loss: Loss, n_classes: int) -> None:
    gradient, labels = gradient_of(loss, logits_of(n_classes))
    assert row_losses.named_classes(gradient).tolist() == labels.tolist()


@pytest.mark.parametrize("n_classes", [2, 3, 20])
@pytest.mark.parametrize(
    ("loss", "is_squashed"),
    [
        (of_softmax, True),
        (of_sigmoid, True),
        (F.cross_entropy, False),
        (weighted, False),
        (smoothed, False),
        (focal(2), False),
        (robust, False),
        (F.multi_margin_loss, False),
    ],
)
def test_probabilities_taken_for_logits_show_in_the_gradient(
    loss: Loss, is_squashed: bool, n_classes: int
) -> None:
    logits = logits_of(n_classes)
    gradient, labels = gradient_of(loss, logits)
    assert bool(row_losses.squashed_twice(gradient, logits.detach(), labels)) == is_squashed


@pytest.mark.parametrize(
    ("loss", "is_squashed"), [(of_softmax, True), (F.multi_margin_loss, False)]
)
def test_a_margin_between_small_logits_is_no_softmax_of_a_softmax(
    loss: Loss, is_squashed: bool
) -> None:
    logits = logits_of(2, size=2e-3)
    gradient, labels = gradient_of(loss, logits)
    assert bool(row_losses.squashed_twice(gradient, logits.detach(), labels)) == is_squashed
    if not is_squashed:
        assert not row_losses.squashed_twice(gradient, 1e-3 * logits.detach(), labels)


@pytest.mark.parametrize(
    ("loss", "low", "high"),
    [(focal(30), 20, 40), (focal(2), 0, 5), (weighted, -1, 1), (smoothed, -1, 1), (robust, -3, 3)],
)
def test_the_power_of_a_focal_loss_is_read_off(loss: Loss, low: float, high: float) -> None:
    signs = row_losses.RowLosses()
    for seed in range(4):
        logits = logits_of(2, seed)
        signs.measure(gradient_of(loss, logits)[0], logits.detach(), None)
    assert low <= float(signs.take_signs()["targets.focus"]) <= high


def test_soft_labels_and_many_labels_are_no_classes() -> None:
    def soft(logits: Tensor, labels: Tensor) -> Tensor:
        share = 0.55 + 0.4 * torch.rand(ROWS, generator=torch.Generator().manual_seed(1))
        y = torch.stack([share, 1 - share], 1)
        return -(y * logits.log_softmax(-1)).sum(-1).mean()

    def many(logits: Tensor, labels: Tensor) -> Tensor:
        y = F.one_hot(labels, logits.shape[1]).float()
        return F.binary_cross_entropy_with_logits(logits, y)

    for loss, is_hard in ((F.cross_entropy, True), (weighted, True), (soft, False), (many, False)):
        logits = logits_of(2)
        gradient, _ = gradient_of(loss, logits)
        labels = row_losses.named_classes(gradient)
        hard = row_losses.hard_classes(gradient, logits.detach(), labels)
        assert bool((hard != IGNORED).all()) == is_hard, loss


def test_rows_that_are_nearly_sure_keep_their_class() -> None:
    logits = (9.0 * torch.nn.functional.one_hot(torch.arange(ROWS) % 2, 3)).requires_grad_()
    classes = torch.arange(ROWS) % 2
    loss = torch.nn.functional.cross_entropy(logits, classes)
    (gradient,) = torch.autograd.grad(loss, logits)
    labels = row_losses.named_classes(gradient)
    assert torch.equal(row_losses.hard_classes(gradient, logits.detach(), labels), classes)


def share_of_one_number(loss: Loss, targets: Callable[[Tensor], Tensor]) -> float:
    signs = row_losses.RowLosses()
    for seed in range(8):
        outputs = logits_of(1, seed)
        labels = targets(torch.randn(ROWS, generator=torch.Generator().manual_seed(90 + seed)))
        (gradient,) = torch.autograd.grad(loss(outputs, labels), outputs)
        signs.measure(gradient, outputs.detach(), None)
    return float(signs.take_signs()["targets.one_number"])


def column_loss(outputs: Tensor, labels: Tensor) -> Tensor:
    return (outputs - labels).square().mean()


def row_loss(outputs: Tensor, labels: Tensor) -> Tensor:
    return (outputs[:, 0] - labels).square().mean()


def test_a_column_minus_a_row_pulls_all_outputs_to_one_number() -> None:
    assert share_of_one_number(column_loss, lambda y: y) == 1
    assert share_of_one_number(row_loss, lambda y: y) == 0


def test_outputs_that_are_all_raised_without_end_have_no_number() -> None:
    def raise_all(outputs: Tensor, labels: Tensor) -> Tensor:
        scores = 0.02 * outputs[:, 0] + labels.mean()
        return F.binary_cross_entropy_with_logits(scores, torch.ones_like(scores))

    assert share_of_one_number(raise_all, lambda y: y) == 0


def test_calls_that_are_raised_and_calls_that_are_lowered_have_no_number() -> None:
    def classify(outputs: Tensor, labels: Tensor) -> Tensor:
        scores = 0.02 * outputs[:, 0]
        label = torch.full_like(scores, float(labels[0] > 0))
        return F.binary_cross_entropy_with_logits(scores, label)

    assert share_of_one_number(classify, lambda y: y) == 0


def test_a_constant_target_of_a_critic_is_meant() -> None:
    assert share_of_one_number(row_loss, torch.ones_like) == 0
    assert share_of_one_number(row_loss, lambda y: torch.full_like(y, float(y[0] > 0))) == 0


def test_the_error_and_the_variance_of_targets_are_read_off() -> None:
    signs = row_losses.RowLosses()
    labels = torch.randn(8, ROWS, generator=torch.Generator().manual_seed(1)) * 3
    errors = list[Tensor]()
    for seed, y in enumerate(labels):
        outputs = logits_of(1, seed)
        (gradient,) = torch.autograd.grad(row_loss(outputs, y), outputs)
        signs.measure(gradient, outputs.detach(), None)
        errors.append(row_loss(outputs.detach(), y))
        assert signs.sides is not None
        assert signs.sides.tolist() == (y > y.mean()).long().tolist()
    taken = signs.take_signs()
    assert float(taken["targets.square"]) == pytest.approx(float(torch.stack(errors).mean()))
    assert float(taken["targets.variance"]) == pytest.approx(float(labels.var(correction=0)))


def test_the_entropy_of_classes_is_that_of_all_calls() -> None:
    signs = row_losses.RowLosses()
    for seed in range(4):
        logits = logits_of(2, seed)
        gradient, labels = gradient_of(F.cross_entropy, logits)
        signs.measure(gradient, logits.detach(), labels)
        assert signs.sides is labels
    assert float(signs.take_signs()["targets.entropy"]) == pytest.approx(0.693, abs=0.02)


def test_a_binary_loss_names_the_label_of_each_row() -> None:
    signs = row_losses.RowLosses()
    outputs, labels = logits_of(1), (torch.arange(ROWS) % 3 == 0).float()
    loss = F.binary_cross_entropy_with_logits(outputs[:, 0], labels)
    signs.measure(torch.autograd.grad(loss, outputs)[0], outputs.detach(), None)
    assert signs.sides is not None
    assert signs.sides.tolist() == labels.tolist()
    assert float(signs.take_signs()["targets.entropy"]) == pytest.approx(0.6365, abs=0.05)


@pytest.mark.parametrize("label", [0, 1, None])
def test_the_labels_of_columns_are_read_off_their_gradient(label: int | None) -> None:
    outputs = logits_of(4)
    labels = torch.arange(ROWS * 4).view(ROWS, 4) % 2
    labels = labels if label is None else torch.full_like(labels, label)
    loss = F.binary_cross_entropy_with_logits(outputs, labels.float())
    signs = row_losses.RowLosses()
    signs.measure(torch.autograd.grad(loss, outputs)[0], outputs.detach(), None)
    assert signs.column_labels is not None
    assert torch.equal(signs.column_labels, labels.flatten())


def test_a_softmax_gives_columns_no_labels() -> None:
    logits, signs = logits_of(4), row_losses.RowLosses()
    signs.measure(gradient_of(F.cross_entropy, logits)[0], logits.detach(), None)
    assert signs.column_labels is not None
    assert bool((signs.column_labels == IGNORED).all())


def divided_by(number: float) -> Loss:
    return lambda logits, labels: F.cross_entropy(logits / number, labels)


def binary(logits: Tensor, labels: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(logits, F.one_hot(labels, logits.shape[1]).float())


@pytest.mark.parametrize(
    ("loss", "number"),
    [
        (divided_by(30), 30.0),
        (divided_by(0.05), 1.0),  # cosines are multiplied on purpose
        (F.cross_entropy, 1.0),
        (focal(2.0), 1.0),
        (weighted, 1.0),
        (smoothed, 1.0),
        (of_softmax, 1.0),
        (robust, 1.0),
        (binary, 1.0),
        (F.multi_margin_loss, 1.0),
    ],
)
@pytest.mark.parametrize("n_classes", [2, 3, 20])
def test_the_number_that_divides_logits_of_classes_is_read_off(
    loss: Loss, number: float, n_classes: int
) -> None:
    losses = row_losses.RowLosses()
    for seed in range(4):
        logits = logits_of(n_classes, seed)
        losses.measure(gradient_of(loss, logits)[0], logits.detach(), None)
    assert abs(float(losses.take_signs()["logits.temperature"]) / number - 1) < 0.1


def several(logits: Tensor, labels: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(logits, labels.float())


def test_several_labels_have_a_column_each_and_the_mean_of_their_entropies() -> None:
    signs = row_losses.RowLosses()
    labels = (torch.arange(ROWS)[:, None] % torch.tensor([2, 4, ROWS]) == 0).long()
    for seed in range(4):
        logits = logits_of(3, seed, size=1.0)
        (gradient,) = torch.autograd.grad(several(logits, labels), logits)
        signs.measure(gradient, logits.detach(), None)
        assert signs.sides is not None
        assert signs.sides[:, 1:].tolist() == labels.tolist()
        assert bool((signs.sides[:, 0] == IGNORED).all())
    p = labels.double().mean(0)
    plain = -(p * p.log() + (1 - p) * (1 - p).log()).mean()
    bias = 1 / (2 * 4 * ROWS)
    assert float(signs.take_signs()["targets.entropy"]) == pytest.approx(float(plain) + bias)


def test_classes_that_exclude_each_other_have_one_column_alone() -> None:
    signs = row_losses.RowLosses()
    logits = logits_of(3, 2, size=1.0)
    gradient, labels = gradient_of(F.cross_entropy, logits)
    signs.measure(gradient, logits.detach(), None)
    assert signs.sides is not None
    assert signs.sides[:, 0].tolist() == labels.tolist()
    assert bool((signs.sides[:, 1:] == IGNORED).all())
    assert float(signs.take_signs()["targets.entropy"]) == pytest.approx(math.log(3) + 2 / 24)


@pytest.mark.parametrize(
    ("loss", "squashed", "divisor"),
    [(F.cross_entropy, 0, 1), (of_softmax, 1, 1), (lambda z, y: F.cross_entropy(z / 30, y), 0, 30)],
)
def test_the_loss_of_where_answers_start_shows_in_its_gradient(
    loss: Loss, squashed: int, divisor: int
) -> None:
    starts = logits_of(9, size=1.0)
    output = {"start_logits": starts, "end_logits": starts}
    values = row_losses.span_outputs(output, ROWS)
    assert values is starts
    assert row_losses.span_outputs(output, ROWS + 1) is None
    assert row_losses.span_outputs({"logits": starts}, ROWS) is None
    rows = row_losses.RowLosses()
    rows.measure_softmax(gradient_of(loss, starts)[0], starts.detach())
    signs = rows.take_signs()
    assert float(signs["targets.squashed"]) == squashed
    assert float(signs["logits.temperature"]) == pytest.approx(divisor, rel=1e-3)


@pytest.mark.parametrize(("first", "rarest"), [(1, 3 * (ROWS // 3)), (0, 0)])
def test_labels_that_begin_at_1_leave_the_first_class_without_rows(first: int, rarest: int) -> None:
    signs = row_losses.RowLosses()
    for seed in range(3):
        labels = first + torch.arange(ROWS) % (4 - first)
        logits = logits_of(4, seed)
        (gradient,) = torch.autograd.grad(F.cross_entropy(logits, labels), logits)
        signs.measure(gradient, logits.detach(), labels)
    found = signs.take_signs()
    assert float(found["targets.none_first"]) == rarest
    assert float(found["targets.unclassed"]) == 0


def test_rows_that_the_loss_leaves_out_are_counted_and_sure_ones_are_not() -> None:
    logits, labels = logits_of(4), torch.arange(ROWS) % 4
    with torch.no_grad():
        logits[0] = torch.tensor([200.0, 0.0, 0.0, 0.0])  # its gradient rounds to 0
    labels[1] = IGNORED
    (gradient,) = torch.autograd.grad(F.cross_entropy(logits, labels), logits)
    assert not gradient[0].any()
    signs = row_losses.RowLosses()
    signs.measure(gradient, logits.detach(), labels)
    assert float(signs.take_signs()["targets.unclassed"]) == pytest.approx(1 / ROWS)
