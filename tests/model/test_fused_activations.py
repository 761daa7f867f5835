"""Activations in C against the equations of `maths`, and against torch where C is not to be had."""

from __future__ import annotations

import pytest
import torch

from pellucid import maths, native
from pellucid.model.feed_forward import gelu_tanh, relu_squared

needs_c = pytest.mark.usefixtures("native")
EVERY = [
    pytest.param(relu_squared, maths.relu_squared, id="relu_squared"),
    pytest.param(gelu_tanh, maths.gelu_tanh, id="gelu_tanh"),
]


@needs_c
@pytest.mark.parametrize(("ours", "equation"), EVERY)
@pytest.mark.parametrize("shape", [(1,), (3, 37), (5, 70_001)], ids=str)
@pytest.mark.parametrize(
    ("dtype", "close"), [(torch.float32, 2e-6), (torch.bfloat16, 8e-3)], ids=["float32", "bfloat16"]
)
def test_value_and_gradient_are_those_of_the_equation(
    ours, equation, shape: tuple[int, ...], dtype: torch.dtype, close: float
) -> None:
    x = (4 * torch.randn(shape, generator=torch.Generator().manual_seed(0))).to(dtype)
    x.requires_grad_()
    wide = x.detach().double().requires_grad_()
    output_grad = torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    activated, expected = ours(x), equation(wide)
    assert "_Activation" in type(activated.grad_fn).__name__
    torch.testing.assert_close(activated.double(), expected, rtol=close, atol=close)
    (by_x,) = torch.autograd.grad(activated, x, output_grad)
    (by_wide,) = torch.autograd.grad(expected, wide, output_grad.double())
    torch.testing.assert_close(by_x.double(), by_wide, rtol=2 * close, atol=4 * close)


@needs_c
@pytest.mark.parametrize(("ours", "equation"), EVERY)
def test_a_model_that_is_only_asked_has_the_numbers_of_one_that_learns(ours, equation) -> None:
    x = 4 * torch.randn(1000, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        without_grad = ours(x)
    with native.allowed(False), torch.inference_mode():
        plain = ours(x)
    assert torch.equal(without_grad, ours(x.requires_grad_()))
    torch.testing.assert_close(without_grad, plain)


@needs_c
@pytest.mark.parametrize(("ours", "equation"), EVERY)
def test_extremes_are_those_of_torch(ours, equation) -> None:
    values = [0.0, -0.0, 1e-30, 60.0, -60.0, 1e4, -1e4, float("nan")]
    x = torch.tensor(values, requires_grad=True)
    activated = ours(x)
    with native.allowed(False):
        assert "_Activation" not in type(ours(x).grad_fn).__name__
        torch.testing.assert_close(activated, ours(x), equal_nan=True)
    (by_x,) = torch.autograd.grad(activated.sum(), x)
    assert by_x[:-1].isfinite().all()
    assert by_x[-1].isnan()


@needs_c
def test_what_is_not_contiguous_is_read_right() -> None:
    x = torch.randn(6, 10, generator=torch.Generator().manual_seed(0)).requires_grad_()
    activated = gelu_tanh(x.t()[::2])
    with native.allowed(False):
        plain = gelu_tanh(x.t()[::2])
    torch.testing.assert_close(activated, plain)
    output_grad = torch.randn(6, 5).t()
    own_grads = torch.autograd.grad(activated, x, output_grad)
    torch.testing.assert_close(own_grads, torch.autograd.grad(plain, x, output_grad))
