"""Logits that have a bound, before the loss or in it, and outputs that are normalised already."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, nll_loss

from pellucid.diagnosis.finding import limit
from pellucid.vitals.call.place_weights import as_logits
from pellucid.vitals.ledger.bounded_logits import highest_probability, pull_on_likely_tokens
from pellucid.vitals.ledger.pulls import gap_of_places

PLACES, VOCAB = 32, 200
Bound = Callable[[Tensor], Tensor]


def capped(bound: float) -> Bound:
    return lambda z: bound * torch.tanh(z / bound)


def drawn(size: float) -> Tensor:
    draws = torch.Generator().manual_seed(0)
    return size * torch.randn(PLACES, VOCAB, generator=draws)


def gradient_of(loss: Bound, outputs: Tensor) -> Tensor:
    """The gradient by outputs of a loss that is given them and is to return log p or logits."""
    targets = torch.randint(VOCAB, (PLACES,), generator=torch.Generator().manual_seed(1))
    outputs = outputs.clone().requires_grad_()
    cross_entropy(loss(outputs), targets).backward()
    assert outputs.grad is not None
    return outputs.grad


@pytest.mark.parametrize("bound", [capped(1), capped(2), torch.sigmoid])
def test_a_bound_in_the_loss_takes_the_pull_from_likely_tokens(bound: Bound) -> None:
    logits = drawn(3.0)
    assert float(pull_on_likely_tokens(gradient_of(bound, logits), logits)) < limit(
        "LOS038", "pull"
    )


@pytest.mark.parametrize(
    ("loss", "power"),
    [(lambda z: z, 1.0), (lambda z: z / 4, 0.25), (capped(30), 1.0), (capped(15), 0.9)],
)
def test_a_softmax_pulls_likely_tokens_most(loss: Bound, power: float) -> None:
    logits = drawn(3.0)
    pull = float(pull_on_likely_tokens(gradient_of(loss, logits), logits))
    assert pull == pytest.approx(power, abs=0.1)


def test_no_pull_shows_where_logits_are_equal_or_places_few() -> None:
    equal, logits = torch.zeros(PLACES, VOCAB), drawn(3.0)
    gradient = gradient_of(lambda z: z, logits)
    assert pull_on_likely_tokens(gradient_of(lambda z: z, equal), equal) == 1
    assert pull_on_likely_tokens(gradient[:4], logits[:4]) == 1


@pytest.mark.parametrize("bound", [capped(1), capped(2), torch.sigmoid])
def test_logits_that_crowd_at_both_ends_leave_no_token_much(bound: Bound) -> None:
    # a tenth of the tokens is pushed up and the rest down, each by another amount
    pushed = drawn(1.0).abs() * 4 * torch.where(torch.arange(VOCAB) % 10 == 0, 3.0, -3.0)
    most = float(highest_probability(bound(pushed)))
    reach = float(bound(pushed).amax() - bound(pushed).amin())
    assert most == pytest.approx(float(torch.tensor([reach] + [0.0] * (VOCAB - 1)).softmax(0)[0]))
    assert most < limit("LOS038", "most")


@pytest.mark.parametrize(
    "logits",
    [
        drawn(1.0),
        torch.zeros(PLACES, VOCAB),
        drawn(1.0).masked_fill(torch.arange(VOCAB) > 99, -torch.inf),
        # frequencies alone, with the tokens that the text never has at the lower end
        -(1.0 + torch.arange(VOCAB)).clamp(max=150).log().expand(PLACES, -1),
    ],
)
def test_other_logits_have_no_bound(logits: Tensor) -> None:
    assert float(highest_probability(logits)) == 1


@pytest.mark.parametrize("is_log", [True, False])
def test_the_gradient_by_normalised_outputs_is_that_by_their_logits(is_log: bool) -> None:
    logits = drawn(2.0)
    p = logits.softmax(-1)
    expected = gradient_of(lambda z: z, logits)
    outputs, loss = (p.log(), lambda x: x) if is_log else (p, torch.log)
    targets = torch.randint(VOCAB, (PLACES,), generator=torch.Generator().manual_seed(1))
    outputs = outputs.clone().requires_grad_()
    nll_loss(loss(outputs), targets).backward()
    assert outputs.grad is not None
    assert gap_of_places(outputs.grad) > limit("LOS005", "balance")
    gradient, as_given = as_logits(outputs.grad, outputs.detach())
    torch.testing.assert_close(gradient, expected, atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(as_given.softmax(-1), p)


def test_logits_stay_as_they_are() -> None:
    logits = drawn(2.0)
    gradient = gradient_of(lambda z: z, logits)
    same_gradient, same_logits = as_logits(gradient, logits)
    assert torch.equal(same_gradient, gradient)
    assert torch.equal(same_logits, logits)
