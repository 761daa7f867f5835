"""What is handed from room to room: a batch of tokens, a model as objectives see it, a loss.

Comes in: nothing. Goes out: types. It does not know who makes or uses them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

#: The target of a position at which nothing is predicted.
IGNORED = -100


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """Token ids, and for each position the token to predict there (or `IGNORED`).

    `documents` numbers the document of each token, where none is to look into another.

    `n_supervised` is the number of targets that are not ignored: known where the batch is made,
    so that nobody has to ask the device for it.
    """

    ids: Int[Tensor, "batch time"]
    targets: Int[Tensor, "batch time"]
    n_supervised: int
    documents: Int[Tensor, "batch time"] | None = None


@runtime_checkable
class LanguageModel(Protocol):
    """What an objective may ask of a model: final hidden states, and the head's matrix."""

    @property
    def head_weight(self) -> Float[Tensor, "vocab d_model"]:
        """The matrix that turns hidden states into logits."""
        ...

    @property
    def head_bias(self) -> Float[Tensor, " vocab"] | None:
        """What is added to the logits, where anything is."""
        ...

    @property
    def soft_cap(self) -> float | None:
        """c, where logits are capped by c tanh(z / c)."""
        ...

    def hidden_states(
        self, ids: Int[Tensor, "batch time"], *, documents: Int[Tensor, "batch time"] | None = None
    ) -> Float[Tensor, "batch time d_model"]:
        """The final hidden states, after the last norm: what the head reads."""
        ...


@dataclass(frozen=True, slots=True)
class Loss:
    """A scalar to minimise (nats per supervised token) and its named parts, kept on the device."""

    total: Float[Tensor, ""]
    parts: Mapping[str, Float[Tensor, ""]]
