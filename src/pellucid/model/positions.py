"""Positions act in one of three places: on embeddings, on queries and keys, or on scores.

Comes in: embeddings, queries or keys, and the position at which they start. Goes out: the same,
told where they stand. The base class returns its input in all places; each scheme overrides one, so
attention calls them always and never asks which scheme it is.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pellucid.maths import rotary_angles, sinusoid


class Positions(nn.Module):
    """No scheme: every place returns its input."""

    def embed(
        self, x: Float[Tensor, "batch time d_model"], start: int
    ) -> Float[Tensor, "batch time d_model"]:
        """What enters the first block; `start` is the position of the first token of `x`."""
        return x

    def rotate(
        self, x: Float[Tensor, "batch heads time d_head"], start: int
    ) -> Float[Tensor, "batch heads time d_head"]:
        """Queries or keys, before their scores are taken."""
        return x


class NoPositions(Positions):
    """The causal mask alone orders the tokens.

    Source:
        Haviv et al. 2022, "Transformer Language Models without Positional Encodings Still Learn
        Positional Information".
    """


class Learned(Positions):
    """One trained vector per position, added to the embedding."""

    def __init__(self, *, context_length: int, d_model: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(context_length, d_model)

    def embed(
        self, x: Float[Tensor, "batch time d_model"], start: int
    ) -> Float[Tensor, "batch time d_model"]:
        """x + the vectors of the positions from `start` on."""
        return x + self.embedding.weight[start : start + x.shape[1]]


class Sinusoidal(Positions):
    """Fixed sines and cosines, added to the embedding.

    Source:
        Vaswani et al. 2017, "Attention Is All You Need", section 3.5.
    See also:
        `pellucid.maths.sinusoid`.
    """

    table: Tensor

    def __init__(self, *, context_length: int, d_model: int, base: float) -> None:
        super().__init__()
        with torch.device("cpu"):  # a constant: real even in a model built on the meta device
            positions = torch.arange(context_length, dtype=torch.float64)
            table = sinusoid(positions, d_model=d_model, base=base).float()
        self.register_buffer("table", table, persistent=False)

    def embed(
        self, x: Float[Tensor, "batch time d_model"], start: int
    ) -> Float[Tensor, "batch time d_model"]:
        """x + the sinusoids of the positions from `start` on."""
        return x + self.table[start : start + x.shape[1]]


class Rotary(Positions):
    """Queries and keys turned, so that their product depends on the distance alone.

    Feature i is paired with feature i + d_head / 2 (the half-split layout of Llama's weights).

    Source:
        Su et al. 2021, "RoFormer", eq. 34.
    See also:
        `pellucid.maths.rotary_angles`.
    """

    cos: Tensor
    sin: Tensor

    def __init__(self, *, context_length: int, d_head: int, base: float) -> None:
        super().__init__()
        with torch.device("cpu"):  # a constant: real even in a model built on the meta device
            positions = torch.arange(context_length, dtype=torch.float64)
            angles = rotary_angles(positions, d_head=d_head, base=base)
            both = torch.cat((angles, angles), dim=-1)
        self.register_buffer("cos", both.cos().float(), persistent=False)
        self.register_buffer("sin", both.sin().float(), persistent=False)

    def rotate(
        self, x: Float[Tensor, "batch heads time d_head"], start: int
    ) -> Float[Tensor, "batch heads time d_head"]:
        """x turned by the angles of the positions from `start` on."""
        end = start + x.shape[-2]
        cos, sin = self.cos[start:end].to(x.dtype), self.sin[start:end].to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-second, first), dim=-1) * sin
