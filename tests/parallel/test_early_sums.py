"""Gradients on their way to other ranks while the backward pass computes the rest."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pellucid.parallel import early_sums
from pellucid.parallel.early_sums import GradientSums
from pellucid.typed import backward


class Doubled:
    """A sum over two ranks with the same gradients; it is there when it is waited for."""

    def __init__(self, flat: Tensor) -> None:
        self.flat = flat

    def wait(self) -> None:
        self.flat.mul_(2)


def make_sums(parameters: list[nn.Parameter], dtype: torch.dtype = torch.float32) -> GradientSums:
    return GradientSums(
        parameters,
        dtype=dtype,
        group=None,
        waiting=nullcontext,
        local=lambda tensor: tensor,
    )


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of the sums that have begun; each parameter is a bucket."""
    lengths: list[int] = []

    def all_reduce(flat: Tensor, group: Any, async_op: bool) -> Doubled:
        lengths.append(len(flat))
        return Doubled(flat)

    monkeypatch.setattr("torch.distributed.all_reduce", all_reduce)
    monkeypatch.setattr(early_sums, "_BUCKET_BYTES", 1)
    return lengths


def test_a_gradient_is_sent_once_it_is_complete_the_last_layer_first(begun: list[int]) -> None:
    torch.manual_seed(0)
    sizes = (2, 3, 5, 7, 11, 13, 17)
    layers = [nn.Linear(n, m, bias=False) for n, m in pairwise(sizes)]
    model, x = nn.Sequential(*layers), torch.randn(4, 2)
    parameters = list(model.parameters())
    log: list[int] = []
    for parameter in parameters:
        parameter.register_hook(lambda _: log.append(len(begun)))
    sums = make_sums(parameters)
    with sums.beginning_early(2):
        for _ in range(2):
            backward(model(x).square().sum())
            log.append(len(begun))
    # four are under way at most: the first two have arrived
    assert all(p.grad is not None for p in parameters)
    halves = [p.grad.clone() for p in parameters[:4] if p.grad is not None]
    sums.finish()
    # before the gradient of a layer, all later layers' gradients have left; not in the first pass
    assert log == [0] * 7 + [0, 1, 2, 3, 4, 5, 6]
    assert begun == [p.numel() for p in reversed(parameters)]
    for half, parameter in zip(halves, parameters, strict=False):
        assert parameter.grad is not None
        assert torch.equal(parameter.grad, 2 * half)


def test_what_no_backward_pass_reached_waits_for_the_end(begun: list[int]) -> None:
    used, unused = nn.Linear(2, 3, bias=False), nn.Linear(5, 7, bias=False)
    parameters = [*used.parameters(), *unused.parameters()]
    sums = make_sums(parameters, dtype=torch.bfloat16)
    with sums.beginning_early(1):
        backward(used(torch.ones(1, 2)).sum())
    assert begun == []  # the order is that of all ranks
    unused.weight.grad = torch.ones(7, 5)
    sums.finish()
    assert begun == [35, 6]
    assert torch.equal(unused.weight.grad, torch.full((7, 5), 2.0))
    backward(used(torch.ones(1, 2)).sum())
    assert len(begun) == 2
