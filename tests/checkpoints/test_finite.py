"""Weights that are not finite are refused, by the name of the first tensor."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pellucid.checkpoints.finite import first_non_finite, refuse_non_finite
from pellucid.errors import NonFiniteError

FINE = {
    "weight": torch.tensor([1.0, -2.0]),
    "half": torch.tensor([3.0], dtype=torch.bfloat16),
    "steps": torch.tensor([7]),
    "nothing": torch.zeros(0),
}


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("place", [0, 4])
def test_the_first_tensor_that_is_not_finite_is_named(bad: float, place: int) -> None:
    values = torch.ones(5)
    values[place] = bad
    tensors: dict[str, Tensor] = {**FINE, "bad": values, "later": values}
    assert first_non_finite(tensors) == "bad"
    with pytest.raises(NonFiniteError, match=rf"^here: the weights bad hold {bad}, in 1 of 5 "):
        refuse_non_finite(tensors, "here")


def test_weights_and_whole_numbers_that_are_finite_pass() -> None:
    assert first_non_finite(FINE) is None
    refuse_non_finite(FINE, "here")
