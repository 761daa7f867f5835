"""Positions act where a scheme wants: on embeddings, on queries and keys, on scores, on values."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pellucid.maths.positions.rotary import Pairing
from pellucid.maths.positions.sinusoids import sinusoid
from pellucid.model.facts import AddedPositionFacts, NoPositionFacts
from pellucid.model.initialisation import empty_embedding
from pellucid.model.views import View


class Positions(nn.Module):
    """No scheme: every place returns its input."""

    #: Whether `add_values` does anything, which needs the weights of attention in the open.
    adds_values: bool = False

    def embed(
        self, x: Float[Tensor, "batch time d_model"], view: View
    ) -> Float[Tensor, "batch time d_model"]:
        """What enters the first block."""
        return x

    def rotate(
        self, x: Float[Tensor, "batch heads time d_head"], view: View
    ) -> Float[Tensor, "batch heads time d_head"]:
        """Queries or keys, before their scores are taken."""
        return x

    def bias(
        self, q: Float[Tensor, "batch heads queries d_head"], view: View, scale: float
    ) -> Float[Tensor, ...] | None:
        """What is added to the scores; broadcasts to (batch, heads, queries, keys)."""
        return None

    def add_values(
        self,
        mixed: Float[Tensor, "batch heads queries d_value"],
        weights: Float[Tensor, "batch heads queries keys"],
        view: View,
    ) -> Float[Tensor, "batch heads queries d_value"]:
        """What queries gathered, after the weights are known."""
        return mixed


class NoPositions(Positions):
    """The causal mask alone orders the tokens.

    Source:
        Haviv et al. 2022, "Transformer Language Models without Positional Encodings Still Learn
        Positional Information".
    """

    def facts(self) -> NoPositionFacts:
        """That nothing tells a token its place."""
        return NoPositionFacts()


class Learned(Positions):
    """One trained vector per position, added to the embedding."""

    def __init__(self, *, context_length: int, d_model: int) -> None:
        super().__init__()
        self.embedding = empty_embedding(context_length, d_model)

    def embed(
        self, x: Float[Tensor, "batch time d_model"], view: View
    ) -> Float[Tensor, "batch time d_model"]:
        """x + the vectors of its positions."""
        return x + at_places(self.embedding.weight, x.shape[1], view)

    def facts(self) -> AddedPositionFacts:
        """Which table is added."""
        return AddedPositionFacts(table="embedding.weight", learned=True)


class Sinusoidal(Positions):
    """Fixed sines and cosines, added to the embedding; the first token stands at `offset`.

    Source:
        Vaswani et al. 2017, "Attention Is All You Need", section 3.5.
    See also:
        `pellucid.maths.sinusoid`.
    """

    table: Tensor

    def __init__(
        self,
        *,
        context_length: int,
        d_model: int,
        base: float,
        pairing: Pairing = "interleaved",
        offset: int = 0,
        down_to_base: bool = False,
    ) -> None:
        super().__init__()
        with torch.device("cpu"):  # a constant: real even in a model built on the meta device
            table = sinusoid(
                torch.arange(context_length, dtype=torch.float64),
                d_model=d_model,
                base=base,
                pairing=pairing,
                offset=offset,
                down_to_base=down_to_base,
            ).float()
        self.register_buffer("table", table, persistent=False)

    def embed(
        self, x: Float[Tensor, "batch time d_model"], view: View
    ) -> Float[Tensor, "batch time d_model"]:
        """x + the sinusoids of its positions."""
        return x + at_places(self.table, x.shape[1], view)

    def facts(self) -> AddedPositionFacts:
        """Which table is added."""
        return AddedPositionFacts(table="table", learned=False)


def at_places(
    table: Float[Tensor, "positions features"], time: int, view: View
) -> Float[Tensor, "*batch time features"]:
    """The rows of a table at the places of the tokens in hand."""
    if view.places is not None:
        return table[view.places]
    return table[view.start : view.start + time]
