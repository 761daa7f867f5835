"""Numbers at a bound, noise on gradients, logits that are cut off, labels that are smoothed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from pellucid.vitals.call.arguments import Arguments
from pellucid.vitals.call.text_rows import at_highest, is_cut_short, without_end
from pellucid.vitals.ledger.bounds import BOUND, noise_ratio, share_at_bound
from pellucid.vitals.ledger.pulls import class_smoothing, gap_of_places, smoothing_sums
from pellucid.vitals.taps.recorded_call import Call

_MATRICES = torch.arange(96).view(3, 32)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(
    ("change", "is_bounded"),
    [
        (lambda x: x, False),
        (lambda x: x.bfloat16().double(), False),
        (lambda x: x.clamp(-3, 3), False),
        (lambda x: x.clamp(-1, 1), True),
        (torch.ones_like, False),
        (torch.zeros_like, False),
        (torch.sign, False),
        (lambda x: x.round().clamp(-1, 1), False),
    ],
    ids=["all", "short", "rarely", "often", "ones", "zeros", "signs", "three levels"],
)
def test_numbers_at_a_bound_are_many_with_one_magnitude_among_others(
    change: Callable[[Tensor], Tensor], is_bounded: bool
) -> None:
    shares = share_at_bound(change(draw(40, 96)), _MATRICES)
    assert bool((shares >= BOUND).double().mean() > 0.9) == is_bounded
    assert is_bounded or bool((shares < BOUND).all())


@pytest.mark.parametrize(
    ("change", "size"),
    [
        (lambda g: g, 0.0),
        (lambda g: 0.1 * g, 0.0),
        (lambda g: g.clamp(-0.5, 0.5), 0.0),
        (lambda g: g * (draw(*g.shape, seed=2) > 0), 0.0),
        (lambda g: g + draw(32, seed=3), 0.0),
        (lambda g: g + 2 * draw(*g.shape, seed=4), 2.0),
    ],
    ids=["own", "scaled", "clipped", "dropped", "steady", "noise"],
)
def test_noise_on_gradients_is_what_is_added_anew(
    change: Callable[[Tensor], Tensor], size: float
) -> None:
    total = draw(60, 32, seed=1)
    noise = noise_ratio(change(total), total)
    assert noise[0] == -1
    assert noise[1:].median().item() == pytest.approx(size, rel=0.15)
    assert size or bool((noise[1:] == 0).all())


@pytest.mark.parametrize(
    ("change", "has_gap"),
    [
        (lambda z: z, False),
        (lambda z: z.clamp(-0.5, 0.5), True),
        (lambda z: 5 * (z / 5).tanh(), False),
        (lambda z: z.masked_fill(torch.arange(50) > 20, -1e9), False),
    ],
    ids=["own", "clamped", "soft cap", "ruled out"],
)
def test_logits_beyond_a_bound_leave_a_gap_in_the_gradient(
    change: Callable[[Tensor], Tensor], has_gap: bool
) -> None:
    logits = draw(64, 50).requires_grad_()
    cross_entropy(change(logits), torch.arange(64) % 20).backward()
    assert logits.grad is not None
    assert (gap_of_places(logits.grad).item() > 0.2) == has_gap


def test_rounding_errors_at_most_places_are_no_gap() -> None:
    logits = draw(64, 50).requires_grad_()
    cross_entropy(logits, torch.arange(64) % 20).backward()
    assert logits.grad is not None
    noise = 1e-9 * draw(64, 50, seed=2) * (torch.arange(50) % 3 > 0)
    is_paid = torch.arange(64)[:, None] < 20
    assert gap_of_places(torch.where(is_paid, logits.grad, noise)).item() < 0.2


def smoothing_of(loss: Callable[[Tensor, Tensor], Tensor], n_classes: int = 2) -> float:
    logits = draw(64, n_classes).requires_grad_()
    labels = torch.arange(64) % n_classes
    loss(logits, labels).backward()
    assert logits.grad is not None
    return class_smoothing(smoothing_sums(logits.grad, logits.detach(), labels), 1).item()


@pytest.mark.parametrize(("smoothing", "n_classes"), [(0.0, 2), (0.9, 2), (0.4, 5)])
def test_the_smoothing_of_labels_is_read_from_their_gradient(
    smoothing: float, n_classes: int
) -> None:
    value = smoothing_of(lambda z, y: cross_entropy(z, y, label_smoothing=smoothing), n_classes)
    assert value == pytest.approx(smoothing, abs=1e-6)


@pytest.mark.parametrize("temperature", [0.5, 1.0])
@pytest.mark.parametrize("gamma", [0, 1, 2])
def test_focal_losses_and_divided_logits_are_no_smoothing(temperature: float, gamma: int) -> None:
    def loss(logits: Tensor, labels: Tensor) -> Tensor:
        nats = cross_entropy(0.1 * logits / temperature, labels, reduction="none")
        return ((1 - (-nats).exp()) ** gamma * nats).mean()

    assert smoothing_of(loss) == 0


def rows_of(ids: Tensor, **changes: object) -> Arguments:
    return Arguments(Call((ids,), {}), 0, room=256, **changes)  # type: ignore[arg-type]


def test_ids_that_are_cut_off_are_the_highest_and_lie_scattered() -> None:
    ids = torch.randint(500, (4, 32), generator=torch.Generator().manual_seed(0))
    cut = ids.clamp(max=60)
    image = torch.where(torch.arange(32) < 20, 500, ids)
    masked = torch.where(ids > 60, 500, ids)
    assert at_highest(rows_of(cut), cut, cut) > 0.7
    assert at_highest(rows_of(ids), ids, ids) < 0.1
    assert at_highest(rows_of(image), image, None) == 0
    assert at_highest(rows_of(masked), masked, ids) < 0.1
    assert at_highest(rows_of(cut, special=(60,)), cut, cut) == 0


def test_texts_are_cut_before_the_end_that_all_of_them_get() -> None:
    ids = torch.randint(3, 500, (4, 6), generator=torch.Generator().manual_seed(0))
    ended = torch.cat([ids[:, :5], torch.full((4, 1), 2)], 1)
    arguments = rows_of(ended, ends=(2,))
    assert without_end(arguments, ended).shape == (4, 5)
    assert is_cut_short(arguments, without_end(arguments, ended))
    assert not is_cut_short(arguments, ended)
    assert without_end(arguments, ids) is ids
