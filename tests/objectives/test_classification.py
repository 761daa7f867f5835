"""The class of a text: the loss with and without smoothing, what counts as right, the types."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from pellucid.objectives import Classification
from support.objectives import label_batch


class Fixed:
    """A classifier with these logits."""

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits

    def class_logits(self, ids: Tensor, *, padding: Tensor | None = None) -> Tensor:
        return self.logits


LOGITS = torch.tensor([[2.0, 0.5, -1.0], [0.0, 3.0, 0.0], [0.2, 0.1, 0.0], [-1.0, 0.0, 4.0]])


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_one_class_is_right_where_its_logit_is_the_largest(smoothing: float) -> None:
    labels = torch.tensor([0, 1, 2, 2])
    loss = Classification(label_smoothing=smoothing)(Fixed(LOGITS), label_batch(labels))
    plain = F.cross_entropy(LOGITS, labels)
    torch.testing.assert_close(
        loss.total, F.cross_entropy(LOGITS, labels, label_smoothing=smoothing)
    )
    torch.testing.assert_close(loss.parts["loss_nats"], plain)
    assert loss.parts["accuracy"] == 0.75
    torch.testing.assert_close(Classification()(Fixed(LOGITS), label_batch(labels)).total, plain)


def test_yes_is_a_logit_above_0_for_each_class_alone() -> None:
    labels = torch.tensor([[1.0, 1, 0], [0, 1, 0], [1, 1, 1], [1, 0, 1]])
    loss = Classification(multi_label=True)(Fixed(LOGITS), label_batch(labels))
    torch.testing.assert_close(loss.total, F.binary_cross_entropy_with_logits(LOGITS, labels))
    torch.testing.assert_close(loss.parts["loss_nats"], loss.total)
    # wrong: a zero where 1 is right, and -1 where 1 is right
    torch.testing.assert_close(loss.parts["accuracy"], torch.tensor(10 / 12))


@pytest.mark.parametrize(("given", "computed"), [("bfloat16", "float32"), ("float64", "float64")])
def test_a_loss_is_computed_in_float32_at_least(given: str, computed: str) -> None:
    logits = LOGITS.to(getattr(torch, given))
    for kind, labels in (
        ({}, torch.tensor([0, 1, 2, 2])),
        ({"multi_label": True}, torch.ones(4, 3)),
    ):
        objective: Any = Classification(**kind)  # pyright: ignore[reportArgumentType]
        with torch.autocast("cpu", torch.bfloat16):
            loss = objective(Fixed(logits), label_batch(labels))
        wide = objective(Fixed(logits.to(getattr(torch, computed))), label_batch(labels))
        assert loss.total.dtype == loss.parts["accuracy"].dtype == getattr(torch, computed)
        assert torch.equal(loss.total, wide.total)
