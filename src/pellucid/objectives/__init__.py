"""What is minimised: a model's outputs and a batch in, a scalar loss in nats per token out.

An objective knows the equation, not the optimiser and not the architecture.
"""

from pellucid.objectives.assemble import assemble
from pellucid.objectives.linear_cross_entropy import (
    LinearCrossEntropy,
    head_cross_entropy,
    linear_cross_entropy,
)
from pellucid.objectives.next_token import NextToken
from pellucid.objectives.objective import Objective

__all__ = [
    "LinearCrossEntropy",
    "NextToken",
    "Objective",
    "assemble",
    "head_cross_entropy",
    "linear_cross_entropy",
]
