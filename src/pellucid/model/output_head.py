"""What stands between a stack's last states and the logits.

Comes in: hidden states. Goes out: what the head's matrix reads: states, or one vector for a whole
text. It does not know the matrix.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, assert_never

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from pellucid.model.facts import HeadTransformFacts
from pellucid.model.feed_forward import Activate, activation_name


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

    def facts(self) -> HeadTransformFacts:
        """Its activation, and the names of its parts."""
        return HeadTransformFacts(activation=activation_name(self.activation))


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


Pooling = Literal["first", "mean", "last"]


class Classes(NamedTuple):
    """How the logits of classes are made: of which vector, and how many.

    `dropout` is of that vector.
    """

    n_classes: int
    pooling: Pooling
    bias: bool
    dropout: float = 0.0


def padding_behind(
    ids: Int[Tensor, "batch time"], padding: Bool[Tensor, "batch time"]
) -> tuple[Int[Tensor, "batch time"], Bool[Tensor, "batch time"]]:
    """Where each token of a text stands, the real ones first and in order, and which they are.

    So moved, a text that had padding before it or within is read as it would be alone, whatever the
    positions and the kind of attention. Rows with padding behind stay as they are.
    """
    order = padding.logical_not().to(torch.uint8).argsort(dim=1, stable=True)
    return order, padding.gather(1, order)


def pool(
    states: Float[Tensor, "batch time d_model"],
    padding: Bool[Tensor, "batch time"] | None,
    pooling: Pooling,
) -> Float[Tensor, "batch d_model"]:
    """One vector for each text; padding, where there is any, stands behind.

    Each text has a real token; nothing waits for the device to see that it does.
    """
    match pooling:
        case "first":
            return states[:, 0]
        case "mean":
            if padding is None:
                return states.mean(dim=1)
            unpadded = states.masked_fill(~padding[..., None], 0.0)
            return unpadded.sum(dim=1) / padding.sum(dim=1, keepdim=True)
        case "last":
            if padding is None:
                return states[:, -1]
            rows = torch.arange(len(states), device=states.device)
            return states[rows, padding.sum(dim=1) - 1]
        case _:
            assert_never(pooling)
