"""Receipts: one number of the model each, its formula with the operands, and where it is computed.

Comes in: a trace and a place in it. Goes out: `Receipt`s, which anybody can recompute. They are
made of the operands alone; the model's number stands beside them.
"""

from pellucid.explain.receipts.attention import (
    out_receipt,
    product_receipt,
    rotation_receipt,
    score_receipt,
    weight_receipt,
)
from pellucid.explain.receipts.feed_forward import activation_receipt
from pellucid.explain.receipts.linear import linear_receipt
from pellucid.explain.receipts.norms import norm_receipt
from pellucid.explain.receipts.outputs import (
    logit_receipt,
    loss_receipt,
    probability_receipt,
    surprisal_receipt,
)
from pellucid.explain.receipts.sums import (
    embedding_receipt,
    position_receipt,
    residual_receipt,
)

__all__ = [
    "activation_receipt",
    "embedding_receipt",
    "linear_receipt",
    "logit_receipt",
    "loss_receipt",
    "norm_receipt",
    "out_receipt",
    "position_receipt",
    "probability_receipt",
    "product_receipt",
    "residual_receipt",
    "rotation_receipt",
    "score_receipt",
    "surprisal_receipt",
    "weight_receipt",
]
