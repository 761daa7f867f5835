"""A block of attention and feed-forward, and a stack of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pellucid.model.attention import Encoded
from pellucid.model.build.shared_layers import share_weights
from pellucid.model.cache import NoCache
from pellucid.model.dropout import Dropout
from pellucid.model.experts import Experts
from pellucid.model.facts import BlockFacts, ResidualFacts, StackFacts
from pellucid.model.positions import Positions
from pellucid.model.residuals import Rule, residual_facts
from pellucid.model.views import View
from pellucid.typed import recomputed

#: The buffers that a forward pass in training moves: statistics of norms, vectors of spectral norm.
_STATISTICS = ("running_mean", "running_var", "._u", "._v")


class Block(nn.Module):
    """Attention, then feed-forward, each with its norm and residual rule.

    `cross_attention`, between the two, attends to an encoder's states.
    """

    def __init__(
        self,
        *,
        attention: nn.Module,
        feed_forward: nn.Module,
        attention_norm: nn.Module,
        feed_forward_norm: nn.Module | None,
        residual: Rule,
        cross_attention: nn.Module | None = None,
        cross_attention_norm: nn.Module | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        #: what the backward pass computes again
        self.recompute: Literal["none", "selective", "full"] = "none"
        self.attention = attention
        self.cross_attention = cross_attention
        self.feed_forward = feed_forward
        self.attention_norm = attention_norm
        self.cross_attention_norm = cross_attention_norm
        self.feed_forward_norm = feed_forward_norm
        self.residual = residual
        self.dropout = Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "batch time d_model"],
        positions: Positions,
        view: View,
        cache: NoCache,
        encoded: Encoded | None = None,
    ) -> Float[Tensor, "batch time d_model"]:
        """The next state of the residual stream.

        Args:
            x: (batch, time, d_model). positions, view, cache: for attention. encoded: the encoder's
            states, for cross-attention.
        """

        def compute(x: Tensor) -> Tensor:
            return self._compute(x, positions, view, cache, encoded)

        if self.recompute == "none" or not (self.training and torch.is_grad_enabled()):
            return compute(x)
        statistics = [buffer for name, buffer in self.named_buffers() if name.endswith(_STATISTICS)]
        return recomputed(compute, x, keep_products=self.recompute == "selective", moved=statistics)

    def _compute(
        self, x: Tensor, positions: Positions, view: View, cache: NoCache, encoded: Encoded | None
    ) -> Tensor:
        def attend(x: Tensor) -> Tensor:
            return self.dropout(self.attention(x, positions, view, cache))

        x = self.residual(x, self.attention_norm, attend)
        if self.cross_attention is not None and self.cross_attention_norm is not None:
            cross_attention = self.cross_attention

            def attend_to_encoder(x: Tensor) -> Tensor:
                return self.dropout(cross_attention(x, encoded, cache))

            x = self.residual(x, self.cross_attention_norm, attend_to_encoder)

        def feed(x: Tensor) -> Tensor:
            return self._feed(x, view)

        return self.residual(x, self.feed_forward_norm, feed)

    def _feed(self, x: Tensor, view: View) -> Tensor:
        if isinstance(self.feed_forward, Experts):
            return self.dropout(self.feed_forward(x, view.real_tokens(x.shape[1])))
        return self.dropout(self.feed_forward(x))

    def facts(self) -> BlockFacts:
        """The order of its layers, and how they join the residual stream."""
        return BlockFacts(
            order="sequential",
            residual=residual_facts(self.residual),
            dropout=self.dropout.p,
            cross_attention=None if self.cross_attention is None else "cross_attention",
        )


class ParallelBlock(Block):
    """x + attention(norm(x)) + feed_forward(norm'(x)): both read the same state.

    Without a `feed_forward_norm` both layers read norm(x).

    Source:
        Black et al. 2022, "GPT-NeoX-20B", section 2.1; Wang and Komatsuzaki 2021, "GPT-J-6B"
        (one norm).
    """

    def _compute(
        self, x: Tensor, positions: Positions, view: View, cache: NoCache, encoded: Encoded | None
    ) -> Tensor:
        normed = self.attention_norm(x)
        attended = self.attention(normed, positions, view, cache)
        own_norm = self.feed_forward_norm
        fed = self._feed(normed if own_norm is None else own_norm(x), view)
        return x + self.dropout(attended) + fed

    def facts(self) -> BlockFacts:
        """That both layers read the same state."""
        return BlockFacts(
            order="parallel",
            residual=ResidualFacts(norm="input"),
            dropout=self.dropout.p,
            shared_norm=self.feed_forward_norm is None,
        )


ProjectionPlace = Literal["first", "before_norm", "last"]


class Entry(NamedTuple):
    """The optional parts before the first block of a stack."""

    norm: nn.Module | None = None
    #: added to the embedding, if the stack's own scheme acts within the layers
    positions: Positions | None = None
    #: a linear map from the embedding's width to d_model
    projection: nn.Module | None = None
    #: whether the map comes first, between positions and norm, or last
    place: ProjectionPlace = "last"


PLAIN_ENTRY = Entry()


class Stack(nn.Module):
    """Positions, blocks one after another, and an optional final norm.

    A causal stack is a decoder: no token sees what comes after it. `owners` names for each block
    the first one with its weights: blocks with the same owner share all parameters, whose gradients
    are then sums over these blocks.
    """

    def __init__(
        self,
        *,
        blocks: Sequence[Block],
        positions: Positions,
        causal: bool,
        entry: Entry = PLAIN_ENTRY,
        final_norm: nn.Module | None = None,
        dropout: float = 0.0,
        owners: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        self.causal = causal
        self.positions = positions
        self.embedding_positions = entry.positions
        self.input_norm = entry.norm or nn.Identity()
        self.input_projection = entry.projection
        self.projection_place: ProjectionPlace = entry.place
        self.blocks = nn.ModuleList(blocks)
        self.final_norm = final_norm or nn.Identity()
        self.dropout = Dropout(dropout)
        self.owners = tuple(range(len(blocks)) if owners is None else owners)
        share_weights(self)

    def forward(
        self,
        x: Float[Tensor, "batch time d_embedding"],
        view: View,
        caches: Sequence[NoCache],
        encoded: Encoded | None = None,
    ) -> Float[Tensor, "batch time d_model"]:
        """The hidden states of embedded tokens.

        Args:
            x: (batch, time, d_embedding). view: what each token sees. caches: one per block.
            encoded: the encoder's states, for cross-attention.
        """
        x = self.enter(x, view)
        for layer, (block, cache) in enumerate(zip(self.blocks, caches, strict=True)):
            x = block(x, self.positions.for_layer(layer), view, cache, encoded)
        return self.final_norm(x)

    def enter(
        self, x: Float[Tensor, "batch time d_embedding"], view: View
    ) -> Float[Tensor, "batch time d_model"]:
        """The input of the first block: the embedding with positions, norm and projection."""
        x = self._project(x, "first")
        x = self.positions.embed(x, view)
        if self.embedding_positions is not None:
            x = self.embedding_positions.embed(x, view)
        x = self._project(x, "before_norm")
        x = self.dropout(self.input_norm(x))
        return self._project(x, "last")

    def _project(self, x: Tensor, place: ProjectionPlace) -> Tensor:
        if self.input_projection is None or place != self.projection_place:
            return x
        return self.input_projection(x)

    def facts(self) -> StackFacts:
        """How deep it is, what comes before its blocks, and which of them share weights."""
        return StackFacts(
            n_blocks=len(self.blocks),
            causal=self.causal,
            owners=self.owners,
            embedding_positions=None if self.embedding_positions is None else "embedding_positions",
            input_projection=None if self.input_projection is None else "input_projection",
            projection_place=self.projection_place,
        )
