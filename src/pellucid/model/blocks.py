"""A block of attention and feed-forward, and a stack of them.

Comes in: embedded tokens. Goes out: hidden states. A block is given its parts and its residual
rule; it does not know which ones they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn

from pellucid.model.cache import NoCache
from pellucid.model.positions import Positions
from pellucid.model.residuals import Rule


class Block(nn.Module):
    """Attention, then feed-forward, each behind its norm and residual rule."""

    def __init__(
        self,
        *,
        attention: nn.Module,
        feed_forward: nn.Module,
        attention_norm: nn.Module,
        feed_forward_norm: nn.Module,
        residual: Rule,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.attention = attention
        self.feed_forward = feed_forward
        self.attention_norm = attention_norm
        self.feed_forward_norm = feed_forward_norm
        self.residual = residual
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "batch time d_model"], positions: Positions, cache: NoCache
    ) -> Float[Tensor, "batch time d_model"]:
        """The next state of the residual stream."""

        def attend(x: Tensor) -> Tensor:
            return self.dropout(self.attention(x, positions, cache))

        def feed(x: Tensor) -> Tensor:
            return self.dropout(self.feed_forward(x))

        x = self.residual(x, self.attention_norm, attend)
        return self.residual(x, self.feed_forward_norm, feed)


class Stack(nn.Module):
    """Positions, blocks one after another, and a final norm where there is one."""

    def __init__(
        self,
        *,
        blocks: Sequence[Block],
        positions: Positions,
        final_norm: nn.Module | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.positions = positions
        self.blocks = nn.ModuleList(blocks)
        self.final_norm = final_norm or nn.Identity()
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "batch time d_model"], caches: Sequence[NoCache]
    ) -> Float[Tensor, "batch time d_model"]:
        """Hidden states of embedded tokens; one cache for each block."""
        x = self.dropout(self.positions.embed(x, caches[0].length))
        for block, cache in zip(self.blocks, caches, strict=True):
            x = block(x, self.positions, cache)
        return self.final_norm(x)
