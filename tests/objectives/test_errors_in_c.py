"""Logits turned into errors in C, against the same thing in torch and against the equation."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from pellucid import native
from pellucid.batches import IGNORED
from pellucid.objectives import LinearCrossEntropy, linear_cross_entropy

needs_c = pytest.mark.usefixtures("native")


def asked(
    monkeypatch: pytest.MonkeyPatch,
    *,
    native_code: bool,
    dtype: torch.dtype,
    bias: Tensor | None = None,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    spread: float = 1.0,
) -> tuple[LinearCrossEntropy, tuple[Tensor, ...]]:
    """Loss and gradients of one made-up batch, with the code in C and without."""
    if not native_code:
        monkeypatch.setenv("PELLUCID_NATIVE", "off")
    generator = torch.Generator().manual_seed(0)
    hidden = (spread * torch.randn(37, 24, generator=generator)).to(dtype).requires_grad_()
    weight = torch.randn(331, 24, generator=generator).requires_grad_()
    targets = torch.randint(331, (37,), generator=generator)
    targets[[0, 5, 36]] = IGNORED
    result = linear_cross_entropy(
        hidden,
        weight,
        targets,
        divisor=34,
        bias=bias,
        label_smoothing=label_smoothing,
        z_loss=z_loss,
    )
    inputs = (hidden, weight) if bias is None else (hidden, weight, bias)
    return result, torch.autograd.grad(result.loss, inputs)


@needs_c
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize(("smoothing", "z_loss"), [(0.0, 0.0), (0.1, 1e-2)])
@pytest.mark.parametrize("spread", [0.01, 1.0, 40.0])
@pytest.mark.parametrize(
    ("dtype", "close"), [(torch.float32, 2e-6), (torch.bfloat16, 2e-2)], ids=["float32", "bfloat16"]
)
def test_the_code_in_c_equals_that_in_torch(
    monkeypatch: pytest.MonkeyPatch,
    dtype: torch.dtype,
    close: float,
    spread: float,
    smoothing: float,
    z_loss: float,
    with_bias: bool,
) -> None:
    bias = torch.linspace(-1, 1, 331).requires_grad_() if with_bias else None
    (c_result, c_grads), (torch_result, torch_grads) = (
        asked(
            monkeypatch,
            native_code=native_code,
            dtype=dtype,
            bias=bias,
            label_smoothing=smoothing,
            z_loss=z_loss,
            spread=spread,
        )
        for native_code in (True, False)  # once off, off for the test
    )
    # a bias is added to logits of bf16 there, and to logits made wide here
    tolerance = {"rtol": close, "atol": close * max(1.0, spread)}
    if dtype == torch.bfloat16 and with_bias:
        tolerance = {"rtol": 4 * close, "atol": 20 * close * max(1.0, spread)}
    for c_part, expected in zip(c_result[:3], torch_result[:3], strict=True):
        torch.testing.assert_close(c_part, expected, **tolerance)
    for c_part, expected in zip(c_grads, torch_grads, strict=True):
        difference = (c_part - expected).double().norm() / expected.double().norm()
        assert difference < (0.05 if dtype == torch.bfloat16 else 1e-5)
    assert not c_grads[0][[0, 5, 36]].any()


@needs_c
@pytest.mark.parametrize(
    ("dtype", "soft_cap", "in_c"),
    [
        (torch.float32, None, True),
        (torch.bfloat16, None, True),
        (torch.float32, 3.0, False),  # C has no cap
        (torch.float64, None, False),
    ],
)
def test_c_computes_what_it_can(
    dtype: torch.dtype, soft_cap: float | None, in_c: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = native.errors()
    if run is None:
        pytest.skip("there is no C compiler")
    calls: list[int] = []
    monkeypatch.setattr(native, "errors", lambda: lambda *rows: (calls.append(1), run(*rows)))
    hidden, weight = torch.randn(5, 8, dtype=dtype), torch.randn(7, 8, dtype=dtype)
    linear_cross_entropy(hidden, weight, torch.arange(5), divisor=5, soft_cap=soft_cap)
    assert bool(calls) == in_c


def test_small_errors_are_not_lost_in_bfloat16() -> None:
    """p - y of a target that is all but certain: 1 - p would round to 0."""
    hidden = torch.tensor([[8.0]], dtype=torch.bfloat16, requires_grad=True)
    weight = torch.tensor([[1.0], [0.0]])
    result = linear_cross_entropy(hidden, weight, torch.tensor([0]), divisor=1)
    (by_hidden,) = torch.autograd.grad(result.loss, hidden)
    assert result.loss.item() == pytest.approx(math.log1p(math.exp(-8)), rel=1e-3)
    assert by_hidden.item() == pytest.approx(-1 / (1 + math.exp(8)), rel=1e-2)


@needs_c
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_what_is_not_finite_stays_so(dtype: torch.dtype, bad: float) -> None:
    hidden = torch.ones(3, 4, dtype=dtype)
    hidden[1, 2] = bad
    result = linear_cross_entropy(hidden, torch.eye(4), torch.tensor([0, 1, 2]), divisor=3)
    assert result.token_losses.isfinite().tolist() == [True, False, True]
    assert not result.loss.isfinite()


@needs_c
def test_the_number_of_threads_changes_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            results.append(asked(monkeypatch, native_code=True, dtype=torch.bfloat16)[0])
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0][1:], other[1:], strict=True))
