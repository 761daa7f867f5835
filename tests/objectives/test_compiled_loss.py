"""The loss as torch compiles it for a GPU: the same numbers as step by step."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch

from pellucid.batches import IGNORED
from pellucid.counting import chunk_rows
from pellucid.objectives import compiled_errors as here
from pellucid.objectives import compiling_loss, linear_cross_entropy

SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "smoothed": {"label_smoothing": 0.1, "z_loss": 1e-2},
    "capped, with a bias": {"soft_cap": 3.0, "bias": True, "z_loss": 0.1},
}


def loss_and_gradients(
    *, dtype: torch.dtype, device: str = "cpu", rows: int = 30, **settings: Any
) -> tuple[torch.Tensor, ...]:
    draws = torch.Generator().manual_seed(0)
    hidden, weight = torch.randn(rows, 8, generator=draws), torch.randn(17, 8, generator=draws)
    inputs = [tensor.to(device, dtype).requires_grad_() for tensor in (hidden, weight)]
    if settings.pop("bias", False):
        inputs.append(torch.linspace(-1, 1, 17, device=device, dtype=dtype).requires_grad_())
        settings["bias"] = inputs[2]
    targets = torch.randint(17, (rows,), generator=draws)
    targets[[2, 11]] = IGNORED
    result = linear_cross_entropy(
        inputs[0], inputs[1], targets.to(device), divisor=rows - 2, **settings
    )
    return (*result, *torch.autograd.grad(result.loss * 3, inputs))


@pytest.fixture(autouse=True)
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the tests' checks of shapes, which torch cannot compile."""
    for name in ("fused_errors", "sum_type"):
        monkeypatch.setattr(here, name, inspect.unwrap(getattr(here, name)))
    here._compiled.cache_clear()


@pytest.fixture
def captured(unchecked: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole graphs as torch sees them, without the time that a compiler takes."""
    run = torch.compile(here.fused_errors, backend="eager", fullgraph=True)
    monkeypatch.setattr(here, "_compiled", lambda: run)


@pytest.mark.usefixtures("captured")
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_numbers_are_those_of_the_loss_step_by_step(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PELLUCID_NATIVE", "off")
    expected = loss_and_gradients(dtype=torch.float64, **settings)
    with compiling_loss(on=True):
        torch.testing.assert_close(loss_and_gradients(dtype=torch.float64, **settings), expected)
    second_result = loss_and_gradients(dtype=torch.float64, **settings)
    assert all(torch.equal(a, b) for a, b in zip(second_result, expected, strict=True))


@pytest.mark.nightly
@pytest.mark.filterwarnings("default")  # of torch's compiler
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_compiler_keeps_the_numbers(
    dtype: torch.dtype, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PELLUCID_NATIVE", "off")
    for rows in (30, 40):  # the second shape compiles for any number of rows
        expected = loss_and_gradients(dtype=dtype, rows=rows, **settings)
        with compiling_loss(on=True):
            torch.testing.assert_close(
                loss_and_gradients(dtype=dtype, rows=rows, **settings), expected
            )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_a_gpu_computes_the_same_compiled(settings: dict[str, Any]) -> None:
    expected = loss_and_gradients(dtype=torch.bfloat16, device="cuda", **settings)
    with compiling_loss(on=True):
        compiled = loss_and_gradients(dtype=torch.bfloat16, device="cuda", **settings)
    torch.testing.assert_close(compiled, expected)


def test_other_numbers_are_no_new_program() -> None:
    graphs: list[object] = []
    torch._dynamo.reset()  # type: ignore[no-untyped-call]

    def count(graph: torch.fx.GraphModule, _: object) -> Any:
        graphs.append(graph)
        return graph.forward

    run = torch.compile(here.fused_errors, backend=count, fullgraph=True)
    logits, targets = torch.randn(4, 5), torch.tensor([0, 1, 2, 3])
    for divisor in (3.0, 4.0, 7.0):
        numbers = map(torch.tensor, (divisor, 1 / divisor, divisor - 3))
        run(logits, targets, None, *numbers, None)
    assert len(graphs) == 1


def test_on_a_gpu_all_of_a_batch_is_few_chunks() -> None:
    """16,384 tokens of GPT-2 in bfloat16; the loss step by step has its logits in float32."""
    compiled, stepwise = (chunk_rows(16_384, 50_304, width, on_gpu=True) for width in (2, 4))
    assert (16_384 // compiled, 16_384 // stepwise) == (2, 4)
