"""What a reading's pass writes to is put back, and what it makes itself is left as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from pellucid.vitals.taps.undo_writes import WritesUndone


@pytest.fixture(scope="module")
def foreign_operator() -> Any:
    """An operator of another library that gives its input, which its schema does not say."""
    library = torch.library.Library("pellucid_tests", "FRAGMENT")
    library.define("same(Tensor x) -> Tensor")
    library.impl("same", lambda x: x, "CPU")
    yield torch.ops.pellucid_tests.same
    library._destroy()


VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "itself": lambda x: x,
    "view": lambda x: x.view(2, 2),
    "reshape": lambda x: x.reshape(2, 2),
    "unsafe view": lambda x: torch.ops.aten._unsafe_view(x, [2, 2]),
    "split": lambda x: x.split(2)[1],
    "expand": lambda x: x[:1].expand(1),
    "detach": lambda x: x.detach(),
    "contiguous": lambda x: x.contiguous(),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_writes_to_views_are_undone(view: Callable[[Tensor], Tensor]) -> None:
    x = torch.ones(4)
    with torch.no_grad(), WritesUndone():
        view(x).mul_(3)
    assert x.tolist() == [1, 1, 1, 1]


def test_writes_behind_a_foreign_operator_are_undone(foreign_operator: Any) -> None:
    x = torch.ones(4)
    with torch.no_grad(), WritesUndone():
        foreign_operator(x).zero_()
    assert x.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    "make",
    [lambda x: x * 2, torch.clone, lambda x: x.half(), lambda x: torch.stack([x, x])[0]],
    ids=["product", "clone", "half", "stack"],
)
def test_what_is_made_within_keeps_what_is_written_to_it(make: Callable[[Tensor], Tensor]) -> None:
    x = torch.ones(4)
    with torch.no_grad(), WritesUndone():
        made_within = make(x)
        made_within.fill_(7)
    assert made_within.tolist() == [7, 7, 7, 7]
    assert x.tolist() == [1, 1, 1, 1]
