"""Code in C by several threads: all of the work is done, whoever does it."""

from __future__ import annotations

import sys

import pytest
import torch

from pellucid import native
from pellucid.native import Numbers, Threads
from pellucid.threads import threads

COUNT = 100_003  # several parts of the least size, and a last one that is shorter


def squares(given: torch.Tensor, by: Threads) -> torch.Tensor:
    """max(x, 0)^2 in C."""
    run = native.activation("relu_squared", "forward", "float32")
    assert run is not None
    results = torch.full_like(given, torch.nan)
    run(Numbers(given.data_ptr(), None, results.data_ptr()), len(given), by)
    return results


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("number", [1, 2, 3, 16])
@pytest.mark.parametrize("ours", [False, True], ids=["torch's threads", "a pool"])
def test_any_number_of_threads_does_all_of_it(number: int, ours: bool) -> None:
    numbers = torch.randn(COUNT, generator=torch.Generator().manual_seed(0))
    thread_pool = Threads(number, None if ours else threads().team)
    torch.testing.assert_close(
        squares(numbers, thread_pool), numbers.relu().square(), rtol=0, atol=0
    )


def test_there_are_as_many_as_torch_is_told_to_use() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        assert threads().number == 3
    finally:
        torch.set_num_threads(before)


@pytest.mark.skipif(sys.platform != "linux", reason="only on Linux is torch's OpenMP one of these")
def test_torchs_own_threads_are_found() -> None:
    assert threads().team is not None
