"""Dropout: the share that is dropped, what is done to the rest, and the way back."""

from __future__ import annotations

import pytest
import torch

from pellucid.model.dropout import Dropout, dropout

SHAPE = (3, 1001, 7)  # not a multiple of the four numbers that share a draw


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_share_of_p_is_zero_and_the_rest_is_divided_by_one_minus_p(
    p: float, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    given = torch.randn(SHAPE).abs().add(1).to(dtype)
    found = dropout(given, p)
    assert (found.shape, found.dtype) == (given.shape, given.dtype)
    kept = found != 0
    n = kept.numel()
    assert abs(kept.float().mean().item() - (1 - p)) < 4 * (p * (1 - p) / n) ** 0.5
    rounding = 1e-4 if dtype == torch.float32 else 2**-7
    torch.testing.assert_close(
        found[kept].float(), given[kept].float() / (1 - p), rtol=rounding, atol=0
    )


def test_neighbours_are_drawn_independently() -> None:
    torch.manual_seed(0)
    kept = (dropout(torch.ones(400_000), 0.5) != 0).view(-1, 4)
    # each of the sixteen patterns of four numbers that share 64 bits
    patterns = (kept * torch.tensor([1, 2, 4, 8])).sum(1).bincount(minlength=16)
    expected, n = 1 / 16, len(kept)
    assert ((patterns / n - expected).abs() < 4 * (expected * (1 - expected) / n) ** 0.5).all()


def test_the_gradient_is_dropped_where_the_number_was() -> None:
    torch.manual_seed(0)
    given = torch.ones(SHAPE, requires_grad=True)
    found = dropout(given, 0.25)
    (gradient,) = torch.autograd.grad(found.sum(), given)
    torch.testing.assert_close(gradient, found.detach(), rtol=0, atol=0)


def test_draws_are_of_torchs_generator() -> None:
    given = torch.ones(SHAPE)
    torch.manual_seed(5)
    first, second = dropout(given, 0.5), dropout(given, 0.5)
    torch.manual_seed(5)
    torch.testing.assert_close(dropout(given, 0.5), first, rtol=0, atol=0)
    assert (first != second).any()


def test_nothing_and_all_may_be_dropped() -> None:
    given = torch.randn(SHAPE)
    assert dropout(given, 0.0) is given
    assert (dropout(given, 1.0) == 0).all()


def test_the_module_drops_in_training_alone() -> None:
    given, module = torch.randn(SHAPE), Dropout(0.5)
    assert (module(given) == 0).any()
    assert module.eval()(given) is given
