"""What stands between a stack's last states and the logits.

Comes in: hidden states. Goes out: hidden states that the head's matrix reads. It does not know the
matrix.
"""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor, nn

from pellucid.model.feed_forward import Activate


class HeadTransform(nn.Module):
    """norm(activation(dense(x))).

    Source:
        Devlin et al. 2018, "BERT", its released code (the masked-LM head).
    """

    def __init__(self, *, d_model: int, activation: Activate, norm: nn.Module) -> None:
        super().__init__()
        self.dense = nn.Linear(d_model, d_model)
        self.activation = activation
        self.norm = norm

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """What the head's matrix reads."""
        return self.norm(self.activation(self.dense(x)))


class Head(NamedTuple):
    """How logits are made; what is left out is not there.

    A `tied` head is the embedding's own matrix. `soft_cap`: logits become c tanh(z / c). `scaled`:
    hidden states are divided by sqrt(d_model) first.
    """

    tied: bool
    bias: bool = False
    transform: nn.Module | None = None
    soft_cap: float | None = None
    scaled: bool = False
