"""The sum of all gradients by the logits of a place, which is 0 for most losses."""

from __future__ import annotations

from typing import assert_never

from pellucid.catalogue import message
from pellucid.explain.chapter_types import Receipt
from pellucid.explain.losses import compute
from pellucid.explain.losses.types import (
    ClassLoss,
    DistillationLoss,
    PolicyLoss,
    PreferenceLoss,
    TokenLoss,
)
from pellucid.explain.outputs import require_loss
from pellucid.explain.receipts.builder import ReceiptBuilder, cell
from pellucid.explain.trace_types import Trace


def zero_sum_receipt(trace: Trace, place_row: int) -> Receipt | None:
    """The sum of all p - y of a place is 0, as p and y sum to 1; None if it need not be."""
    loss = require_loss(trace)
    match loss:
        case TokenLoss(z_loss=weight) if weight:
            return None
        case ClassLoss() if loss.multi_label:
            return None
        case TokenLoss() | DistillationLoss() | PreferenceLoss() | PolicyLoss() | ClassLoss():
            pass
        case _:
            assert_never(loss)
    build = ReceiptBuilder(trace)
    return build.receipt(
        cell("error", place_row),
        title=message("receipts.all-of-them-together"),
        formula="Σ error",
        expression=build.vector("error", "error", place_row).sum(),
        source=(compute.errors, "torch.autograd.grad(loss_value"),
        model=float(trace["error"][place_row].double().sum()),
    )
