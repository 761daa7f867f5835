"""Schemes of positions: each can act on embeddings, queries and keys, scores, or values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from pellucid.errors import PellucidError
from pellucid.maths.positions.rotary import Pairing
from pellucid.maths.positions.sinusoids import sinusoid
from pellucid.model.facts import AddedPositionFacts, AlternatingPositionFacts, NoPositionFacts
from pellucid.model.initialisation import empty_embedding
from pellucid.model.views import View
from pellucid.typed import to_list


@runtime_checkable
class ProjectsPositions(Protocol):
    """Attention that can make queries and keys of the vectors of distances."""

    def position_keys(
        self, vectors: Float[Tensor, "rows d_model"]
    ) -> Float[Tensor, "kv_heads rows d_head"]:
        """The keys of vectors of distances."""
        ...

    def position_queries(
        self, vectors: Float[Tensor, "rows d_model"]
    ) -> Float[Tensor, "heads rows d_head"]:
        """The queries of vectors of distances."""
        ...


class Positions(nn.Module):
    """The base class of schemes: every method returns its input."""

    #: Whether `add_values` does anything: it needs the weights, which the fused kernel never forms.
    adds_values: bool = False
    #: Whether positions act otherwise in longer texts: see `changes`.
    depend_on_length: bool = False

    def changes(self, before: int, after: int) -> bool:
        """Whether positions act otherwise once a text has grown from `before` tokens to `after`.

        If so, what a cache keeps of the first tokens is wrong, and the text must be read again.
        """
        return False

    def check_continued(
        self, before: int, after: int, padding: Bool[Tensor, "batch keys"] | None
    ) -> None:
        """Refuse to go on from a cache whose keys are wrong; see `changes`.

        Args:
            before: tokens in the cache. after: tokens after the call. padding: True where real.

        Raises:
            PellucidError: positions act otherwise after the call.
        """
        if not before or not self.depend_on_length:
            return
        growth = [(before, after)]
        if padding is not None:
            lengths = (to_list(real.sum(1)) for real in (padding[:, :before], padding))
            growth = list(zip(*lengths, strict=True))
        for short, long in growth:
            if short and self.changes(short, long):
                raise PellucidError(
                    f"the text grows from {short} to {long} tokens, and its positions have other "
                    "angles from then on, so what the caches keep is wrong: read the whole text "
                    "with new caches"
                )

    def embed(
        self, x: Float[Tensor, "batch time width"], view: View
    ) -> Float[Tensor, "batch time width"]:
        """The input of the first block."""
        return x

    def for_layer(self, layer: int) -> Positions:
        """The scheme that acts in a layer; the first layer is 0."""
        return self

    def rotate(
        self, x: Float[Tensor, "batch heads time d_head"], view: View
    ) -> Float[Tensor, "batch heads time d_head"]:
        """Queries or keys, before the scores."""
        return x

    def in_layer(self, layer: ProjectsPositions) -> Positions:
        """The scheme as the attention of one layer uses it; most are the same in every layer."""
        return self

    def bias(
        self,
        q: Float[Tensor, "batch heads queries d_head"],
        k: Float[Tensor, "batch kv_heads keys d_head"],
        view: View,
        scale: float,
    ) -> Float[Tensor, ...] | None:
        """A bias of the scores that broadcasts to (batch, heads, queries, keys), or None.

        Args:
            q: (batch, heads, queries, d_head). k: (batch, kv_heads, keys, d_head). view: the
            positions. scale: of the scores.
        """
        return None

    def add_values(
        self,
        mixed: Float[Tensor, "batch heads queries d_value"],
        weights: Float[Tensor, "batch heads queries keys"],
        view: View,
    ) -> Float[Tensor, "batch heads queries d_value"]:
        """The outputs of the queries, once the weights are known.

        Args:
            mixed: (batch, heads, queries, d_value), the weighted values. weights: of the keys.
            view: the positions.
        """
        return mixed


class NoPositions(Positions):
    """The causal mask alone orders the tokens.

    Source:
        Haviv et al. 2022, "Transformer Language Models without Positional Encodings Still Learn
        Positional Information".
    """

    def facts(self) -> NoPositionFacts:
        """That there are no positions."""
        return NoPositionFacts()


class Learned(Positions):
    """One trained vector per position, added to the embedding; the first token has row `offset`."""

    def __init__(self, *, context_length: int, d_model: int, offset: int = 0) -> None:
        super().__init__()
        self.offset = offset
        self.embedding = empty_embedding(context_length + offset, d_model)

    def embed(
        self, x: Float[Tensor, "batch time width"], view: View
    ) -> Float[Tensor, "batch time width"]:
        """x + the vectors of its positions."""
        return x + at_places(self.embedding.weight, x.shape[1], view, first=self.offset)

    def facts(self) -> AddedPositionFacts:
        """Which table is added, and the row of the first token."""
        return AddedPositionFacts(table="embedding.weight", learned=True, first_row=self.offset)


class Sinusoidal(Positions):
    """Fixed sines and cosines, added to the embedding; the first token is at position `offset`.

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
        self, x: Float[Tensor, "batch time width"], view: View
    ) -> Float[Tensor, "batch time width"]:
        """x + the sinusoids of its positions."""
        return x + at_places(self.table, x.shape[1], view)

    def facts(self) -> AddedPositionFacts:
        """Which table is added."""
        return AddedPositionFacts(table="table", learned=False)


class AlternatingPositions(Positions):
    """Schemes that take turns: each layer has one of them, and none changes the embedding."""

    def __init__(self, schemes: Sequence[Positions], scheme_of_layer: Sequence[int]) -> None:
        super().__init__()
        self.schemes = nn.ModuleList(schemes)
        self.scheme_of_layer = tuple(scheme_of_layer)
        self.depend_on_length = any(scheme.depend_on_length for scheme in schemes)

    def changes(self, before: int, after: int) -> bool:
        """Whether a scheme acts otherwise once a text has grown from `before` tokens to `after`."""
        schemes = cast("list[Positions]", list(self.schemes))
        return any(scheme.changes(before, after) for scheme in schemes)

    def for_layer(self, layer: int) -> Positions:
        """The scheme of a layer; the first layer is 0."""
        return cast("Positions", self.schemes[self.scheme_of_layer[layer]])

    def facts(self) -> AlternatingPositionFacts:
        """Which schemes there are, and which layer has which."""
        paths = tuple(f"schemes.{index}" for index in range(len(self.schemes)))
        return AlternatingPositionFacts(schemes=paths, scheme_of_layer=self.scheme_of_layer)


def at_places(
    table: Float[Tensor, "positions features"], time: int, view: View, *, first: int = 0
) -> Float[Tensor, "*batch time features"]:
    """The rows of a table at the positions of a call's tokens.

    Args:
        table: (positions, features). time: the number of tokens. view: their positions. first: the
        row of position 0.
    """
    if view.places is not None:
        return table[view.places + first] if first else table[view.places]
    return table[view.start + first : view.start + first + time]
