"""Results from logits in chunks equal the results from all of them at once."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import Tensor

from pellucid import maths
from pellucid.batches import IGNORED
from pellucid.objectives import LazyLogits, in_chunks, token_entropy, token_log_p


@pytest.fixture(params=[1, 7, 1000], ids=lambda rows: f"chunks of {rows}")
def chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    temporaries = sys.modules["pellucid.counting.temporaries"]
    monkeypatch.setattr(temporaries, "_LEAST_ROWS", request.param)
    monkeypatch.setattr(temporaries, "_CHUNK_BYTES", 1)
    return request.param


def inputs(dtype: torch.dtype = torch.float64) -> tuple[LazyLogits, Tensor]:
    generator = torch.Generator().manual_seed(0)
    hidden, weight, bias = (
        torch.randn(shape, dtype=dtype, generator=generator).requires_grad_()
        for shape in ((30, 8), (17, 8), (17,))
    )
    targets = torch.randint(17, (30,), generator=generator)
    targets[[2, 11]] = IGNORED
    return LazyLogits(hidden, weight, bias, soft_cap=3.0, temperature=1.5), targets


def plain(lazy: LazyLogits) -> Tensor:
    logits = lazy.hidden @ lazy.weight.T + lazy.bias
    return 3.0 * torch.tanh(logits / 3.0) / 1.5


def leaves(lazy: LazyLogits) -> list[Tensor]:
    return [x for x in (lazy.hidden, lazy.weight, lazy.bias) if x is not None]


def test_log_p_and_its_gradients_are_those_of_the_whole_softmax(chunk: int) -> None:
    lazy, targets = inputs()
    weights = torch.randn(30, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    own_log_p = token_log_p(lazy, targets)
    is_target = targets != IGNORED
    logits = plain(lazy)
    full_log_p = maths.log_softmax(logits).gather(1, targets.clamp(min=0)[:, None])[:, 0]
    torch.testing.assert_close(own_log_p[is_target], full_log_p[is_target])
    torch.testing.assert_close(
        torch.autograd.grad((own_log_p * weights).sum(), leaves(lazy)),
        torch.autograd.grad((full_log_p * weights * is_target).sum(), leaves(lazy)),
    )


def test_ignored_positions_are_exactly_0_and_have_exactly_no_gradient(chunk: int) -> None:
    lazy, targets = inputs()
    for values in (token_log_p(lazy, targets), token_entropy(lazy, targets)):
        assert (values[targets == IGNORED] == 0).all()
        (grad,) = torch.autograd.grad(values.sum(), [lazy.hidden])
        assert (grad[targets == IGNORED] == 0).all()
        assert (grad[targets != IGNORED].abs().sum(-1) > 0).all()


def test_logits_are_computed_again_and_not_kept() -> None:
    lazy, targets = inputs()
    calls = []

    def function(logits: Tensor, targets: Tensor) -> tuple[Tensor]:
        calls.append(tuple(logits.shape))
        return (logits.square().sum(-1),)

    sizes: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda x: sizes.append(x.numel()) or x, lambda x: x
    ):
        (values,) = in_chunks(function, [lazy], targets)
    assert calls == [(30, 17)]
    assert 30 * 17 not in sizes
    values.sum().backward()
    assert calls == [(30, 17)] * 2


def test_under_autocast_products_are_narrow_and_what_is_summed_is_wide() -> None:
    lazy, targets = inputs(torch.float32)
    wide = token_log_p(lazy, targets)
    with torch.autocast("cpu", torch.bfloat16):
        narrow = token_log_p(lazy, targets)
    narrow.sum().backward()
    assert narrow.dtype == torch.float32
    assert not torch.equal(narrow, wide)
    torch.testing.assert_close(narrow, wide, rtol=3e-2, atol=3e-2)
    assert [x.grad.dtype for x in leaves(lazy) if x.grad is not None] == [torch.float32] * 3


def test_detached_logits_pass_no_gradient_on() -> None:
    lazy, targets = inputs()
    assert not token_log_p(lazy.detach(), targets).requires_grad
    with torch.no_grad():
        assert not token_log_p(lazy, targets).requires_grad
