"""Objectives: from a model's outputs and a batch to a scalar loss and its named parts.

Must not know: the optimiser, the architecture.
"""

from pellucid.batches import Classifier
from pellucid.objectives.assemble import Objective, assemble, assemble_advantages
from pellucid.objectives.chunks import LazyLogits, in_chunks, row_log_p, token_log_p
from pellucid.objectives.classification import Classification
from pellucid.objectives.compiled_errors import compiling_loss
from pellucid.objectives.distillation import Distillation, token_divergence
from pellucid.objectives.dpo import DPO, answer_log_p
from pellucid.objectives.linear_cross_entropy import (
    LinearCrossEntropy,
    head_cross_entropy,
    linear_cross_entropy,
)
from pellucid.objectives.policy_gradient import PolicyGradient
from pellucid.objectives.reference import Reference, evaluating, frozen_reference, open_reference
from pellucid.objectives.token_loss import MLM, NextToken, Seq2Seq, TokenLoss, token_entropy
from pellucid.old_names import names_of as _names_of

__all__ = [
    "DPO",
    "MLM",
    "Classification",
    "Classifier",
    "Distillation",
    "LazyLogits",
    "LinearCrossEntropy",
    "NextToken",
    "Objective",
    "PolicyGradient",
    "Reference",
    "Seq2Seq",
    "TokenLoss",
    "answer_log_p",
    "assemble",
    "assemble_advantages",
    "compiling_loss",
    "evaluating",
    "frozen_reference",
    "head_cross_entropy",
    "in_chunks",
    "linear_cross_entropy",
    "open_reference",
    "row_log_p",
    "token_divergence",
    "token_entropy",
    "token_log_p",
]

__getattr__ = _names_of(__name__)
