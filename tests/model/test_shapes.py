"""In tests a tensor whose shape or type is not the annotated one is refused."""

from __future__ import annotations

import pytest
import torch
from jaxtyping import Float, TypeCheckError, jaxtyped
from torch import Tensor

from pellucid.model.attention import join_heads
from support.shapes import check_shapes


@jaxtyped(typechecker=check_shapes)
def transposed(x: Float[Tensor, "rows columns"]) -> Float[Tensor, "rows columns"]:
    return x.T


def test_an_argument_of_another_shape_or_type_is_refused() -> None:
    assert join_heads(torch.ones(1, 2, 3, 4)).shape == (1, 3, 8)
    for heads in (torch.ones(2, 3, 4), torch.ones(1, 2, 3, 4, dtype=torch.int64)):
        with pytest.raises(TypeCheckError, match=r"parameters of .*join_heads"):
            join_heads(heads)


def test_a_returned_value_of_another_shape_is_refused() -> None:
    assert transposed(torch.ones(2, 2)).shape == (2, 2)
    with pytest.raises(TypeCheckError, match=r"return value of .*transposed"):
        transposed(torch.ones(2, 3))
