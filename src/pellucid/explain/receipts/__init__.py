"""Receipts: one number of the model each, its formula with the operands, and its line of source.

A receipt is made of a trace and a place in it. You can compute it again from the operands alone,
and compare the result with the model's number.
"""

from pellucid.explain.receipts.of_selection import (
    activation_receipt,
    bias_receipt,
    embedding_receipt,
    linear_receipt,
    logit_receipt,
    loss_receipt,
    norm_receipt,
    out_receipt,
    output_gate_receipt,
    position_receipt,
    probability_receipt,
    product_receipt,
    residual_receipt,
    rotation_receipt,
    score_receipt,
    surprisal_receipt,
    weight_receipt,
)
from pellucid.old_words import take_old_words as _take_old_words

__all__ = [
    "activation_receipt",
    "bias_receipt",
    "embedding_receipt",
    "linear_receipt",
    "logit_receipt",
    "loss_receipt",
    "norm_receipt",
    "out_receipt",
    "output_gate_receipt",
    "position_receipt",
    "probability_receipt",
    "product_receipt",
    "residual_receipt",
    "rotation_receipt",
    "score_receipt",
    "surprisal_receipt",
    "weight_receipt",
]

_take_old_words(__name__, globals())
