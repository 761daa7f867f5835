"""The fused loss against the equation of `maths`, against torch, and against itself in parts."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from pellucid import maths
from pellucid.batches import IGNORED
from pellucid.counting import chunk_rows
from pellucid.objectives import LazyLogits, head_cross_entropy, in_chunks, linear_cross_entropy
from support.models import VARIANTS, build
from support.objectives import token_batch


@pytest.fixture(params=[1, 7, 1000], ids=lambda rows: f"chunks of {rows}")
def chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    import sys

    temporaries = sys.modules["pellucid.counting.temporaries"]
    monkeypatch.setattr(temporaries, "_LEAST_ROWS", request.param)
    monkeypatch.setattr(temporaries, "_CHUNK_BYTES", 1)
    return request.param


def inputs(dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(30, 8, dtype=dtype, generator=generator, requires_grad=True)
    weight = torch.randn(17, 8, dtype=dtype, generator=generator, requires_grad=True)
    targets = torch.randint(17, (30,), generator=generator)
    targets[[2, 11]] = IGNORED
    return hidden, weight, targets


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("z_loss", [0.0, 1e-2])
def test_value_and_gradient_equal_the_equation(
    chunk: int, label_smoothing: float, z_loss: float
) -> None:
    hidden, weight, targets = inputs()
    result = linear_cross_entropy(
        hidden, weight, targets, divisor=28, label_smoothing=label_smoothing, z_loss=z_loss
    )
    is_target = targets != IGNORED
    logits = (hidden @ weight.T)[is_target]
    equation = maths.cross_entropy(
        logits, targets[is_target], label_smoothing=label_smoothing, z_loss=z_loss
    )
    plain = equation.sum() / 28
    torch.testing.assert_close(result.loss, plain)
    torch.testing.assert_close(
        result.token_losses[is_target], maths.cross_entropy(logits, targets[is_target])
    )
    torch.testing.assert_close(result.log_z[is_target], logits.logsumexp(-1))
    own_grads = torch.autograd.grad(result.loss * 3, (hidden, weight))
    expected_grads = torch.autograd.grad(plain * 3, (hidden, weight))
    torch.testing.assert_close(own_grads, expected_grads)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("soft_cap", [None, 3.0])
@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_bias_and_soft_cap_are_in_the_loss_and_in_every_gradient(
    chunk: int, dtype: torch.dtype, soft_cap: float | None, scale: float
) -> None:
    hidden, weight, targets = inputs(dtype)
    bias = torch.linspace(-1, 1, 17, dtype=dtype).requires_grad_()
    own_loss = linear_cross_entropy(
        hidden, weight, targets, divisor=28, bias=bias, soft_cap=soft_cap, z_loss=0.1
    ).loss
    logits = hidden @ weight.T + bias
    logits = logits if soft_cap is None else soft_cap * torch.tanh(logits / soft_cap)
    is_target = targets != IGNORED
    expected_loss = (
        maths.cross_entropy(logits[is_target], targets[is_target], z_loss=0.1).sum() / 28
    )
    torch.testing.assert_close(own_loss, expected_loss)
    tensors = (hidden, weight, bias)
    torch.testing.assert_close(
        torch.autograd.grad(own_loss * scale, tensors),
        torch.autograd.grad(expected_loss * scale, tensors),
    )


def test_nothing_of_the_memory_before_is_in_a_gradient(chunk: int) -> None:
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)  # so that torch fills new memory with nan
    try:
        for rows in (30, 0):
            hidden, weight, targets = inputs()
            linear_cross_entropy(hidden[:rows], weight, targets[:rows], divisor=28).loss.backward()
            for leaf in (hidden, weight):
                assert leaf.grad is None or torch.isfinite(leaf.grad).all()
    finally:
        torch.use_deterministic_algorithms(before)


def test_a_chunk_has_as_many_rows_as_its_logits_may_take_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import sys

    temporaries = sys.modules["pellucid.counting.temporaries"]
    monkeypatch.setattr(temporaries, "_LEAST_ROWS", 1)
    monkeypatch.setattr(temporaries, "_CHUNK_BYTES", 5 * 17 * 4)
    sizes: list[int] = []

    def count(logits: torch.Tensor) -> tuple[torch.Tensor]:
        sizes.append(len(logits))
        return (logits[:, 0],)

    hidden, weight, _ = inputs(torch.float32)
    with torch.no_grad():
        in_chunks(count, [LazyLogits(hidden, weight, None, soft_cap=None)])
    assert sizes == [5] * 6


def test_a_gpu_takes_few_large_chunks() -> None:
    tokens, vocab = 64 * 1024, 50_257
    sizes = [chunk_rows(tokens, vocab, 2, on_gpu=on_gpu) for on_gpu in (False, True)]
    assert [-(-tokens // size) for size in sizes] == [99, 7]
    assert sizes[1] * vocab * 2 <= 2**30
    assert chunk_rows(100, vocab, 2, on_gpu=True) == 100


def test_a_models_own_head_has_its_bias_and_its_soft_cap() -> None:
    for variant in ("busy head", "rotary"):
        model, batch = build(VARIANTS[variant]), token_batch()
        own_loss = head_cross_entropy(model, batch, divisor=4)
        is_target = batch.targets != IGNORED
        expected_loss = (
            maths.cross_entropy(model(batch.ids)[is_target], batch.targets[is_target]).sum() / 4
        )
        torch.testing.assert_close(own_loss.loss, expected_loss)


def test_equals_torch_with_its_own_smoothing_and_ignored_positions() -> None:
    hidden, weight, targets = inputs()
    own_loss = linear_cross_entropy(hidden, weight, targets, divisor=28, label_smoothing=0.2).loss
    torch_loss = F.cross_entropy(hidden @ weight.T, targets, label_smoothing=0.2)
    torch.testing.assert_close(own_loss, torch_loss)


def test_ignored_positions_have_exactly_no_gradient(chunk: int) -> None:
    hidden, weight, targets = inputs()
    linear_cross_entropy(
        hidden, weight, targets, divisor=28, label_smoothing=0.1, z_loss=0.1
    ).loss.backward()
    assert hidden.grad is not None
    assert (hidden.grad[targets == IGNORED] == 0).all()
    assert (hidden.grad[targets != IGNORED].abs().sum(-1) > 0).all()


def test_only_what_needs_a_gradient_gets_one() -> None:
    hidden, weight, targets = inputs()
    linear_cross_entropy(hidden.detach(), weight, targets, divisor=1).loss.backward()
    assert weight.grad is not None
    weight.grad = None
    linear_cross_entropy(hidden, weight.detach(), targets, divisor=1).loss.backward()
    assert weight.grad is None
    assert hidden.grad is not None


def test_under_autocast_the_loss_is_float32_and_near_the_wide_one() -> None:
    hidden, weight, targets = inputs(torch.float32)
    wide = linear_cross_entropy(hidden, weight, targets, divisor=28)
    with torch.autocast("cpu", torch.bfloat16):
        narrow = linear_cross_entropy(hidden, weight, targets, divisor=28)
    assert narrow.loss.dtype == narrow.token_losses.dtype == narrow.log_z.dtype == torch.float32
    torch.testing.assert_close(narrow.loss, wide.loss, rtol=5e-3, atol=0)
    narrow.loss.backward()
    assert hidden.grad is not None
    assert hidden.grad.dtype == torch.float32


def test_huge_logits_stay_finite() -> None:
    hidden, weight, targets = inputs(torch.float32)
    result = linear_cross_entropy(hidden * 1e3, weight * 1e2, targets, divisor=28)
    result.loss.backward()
    assert torch.isfinite(result.loss)
    assert hidden.grad is not None
    assert torch.isfinite(hidden.grad).all()


def test_a_uniform_guess_costs_the_logarithm_of_the_vocabulary() -> None:
    targets = torch.arange(5)
    loss = linear_cross_entropy(torch.zeros(5, 3), torch.randn(5, 3), targets, divisor=5).loss
    assert loss.item() == pytest.approx(torch.tensor(5.0).log().item())
