"""One update: the parts of a batch, its way to the device, its precision, its numbers."""

from __future__ import annotations

from typing import Any, cast

import pytest
import torch

from pellucid.batches import Batch, TokenBatch
from pellucid.objectives import NextToken
from pellucid.optim import assemble_optimiser
from pellucid.training import autocast, split_batch, to_device, update
from support.models import VARIANTS, build
from support.objectives import token_batch
from support.watched import adam

CPU = torch.device("cpu")


def test_parts_of_a_batch_are_its_rows_in_order() -> None:
    ids = torch.arange(12).view(6, 2)
    batch = TokenBatch(ids=ids, targets=ids, n_supervised=12)
    parts = list(split_batch(batch, 3))
    assert [part.ids.tolist() for part in parts] == [ids[n : n + 2].tolist() for n in (0, 2, 4)]
    assert all(part.n_supervised == 12 for part in parts)  # the whole update's
    assert list(split_batch(batch, 1)) == [batch]


class Placed:
    """A tensor that notes how it is moved."""

    def __init__(self, place: str) -> None:
        self.device = torch.device(place)
        self.moves: list[str] = []

    def pin_memory(self) -> Placed:
        self.moves.append("pin")
        return self

    def to(self, device: torch.device, *, non_blocking: bool) -> Placed:
        self.moves.append(f"{device} {non_blocking}")
        return self


class Tensors:
    """A batch of such tensors."""

    def __init__(self, *tensors: Placed) -> None:
        self.tensors = tensors

    def map_tensors(self, change: Any) -> list[Placed]:
        return [change(tensor) for tensor in self.tensors]


@pytest.mark.parametrize(
    ("device", "moves"),
    [
        ("cuda", [["pin", "cuda True"], ["cuda True"]]),
        ("mps", [["mps True"], ["mps True"]]),
    ],
)
def test_a_batch_is_pinned_on_its_way_to_cuda_alone(device: str, moves: list[list[str]]) -> None:
    batch = cast("Batch", Tensors(Placed("cpu"), Placed("cuda")))
    placed = cast("list[Placed]", to_device(batch, torch.device(device)))
    assert [tensor.moves for tensor in placed] == moves
    assert to_device(batch, CPU) is batch


def test_matrix_products_are_in_the_precision_of_the_plan() -> None:
    a = torch.ones(2, 2)
    with autocast(CPU, "bfloat16"):
        assert (a @ a).dtype == torch.bfloat16
    with autocast(CPU, "float32"):
        assert (a @ a).dtype == torch.float32


@pytest.mark.parametrize("blocked", [0.0, 1.0])
def test_an_update_moves_the_weights_by_its_factor_and_leaves_no_gradient(blocked: float) -> None:
    largest_moves: list[float] = []
    for factor in (1.0, 0.5):
        model = build(VARIANTS["rotary"], double=False)
        before = model.head_weight.detach().clone()
        optimiser = assemble_optimiser(adam(0.1, weight_decay=0.0), model.named_parameters())
        numbers = update(
            model,
            NextToken(),
            optimiser,
            token_batch(),
            factor=factor,
            clip_norm=1.0,
            blocked=torch.tensor(blocked),
            accumulation=1,
            device=CPU,
            precision="float32",
        )
        assert numbers.blocked == blocked
        assert "total" not in numbers.parts
        assert all(parameter.grad is None for parameter in model.parameters())
        largest_moves.append((model.head_weight - before).abs().max().item())
    # Adam's first step is the learning rate
    expected = [0.0, 0.0] if blocked else [0.1, 0.05]
    assert largest_moves == pytest.approx(expected, rel=1e-3)
