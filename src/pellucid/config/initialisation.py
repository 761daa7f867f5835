"""How weights start: one frozen class per rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pellucid.config.checks import Checked, Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class Normal(Checked):
    """Weights from a normal distribution of this standard deviation, whatever their shape.

    Attributes:
        std: the standard deviation.
    """

    std: Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class He:
    """std = sqrt(2 / n_in): keeps the variance through a ReLU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Xavier:
    """std = sqrt(2 / (n_in + n_out)): a compromise between forward and backward variance."""


#: How layers that write to the residual stream start.
Outputs = Literal["plain", "depth_scaled", "zero"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Initialisation(Checked):
    """How weights start. Biases start at 0, gains of norms at 1.

    Attributes:
        weights: the standard deviation of every matrix that is not an embedding, including an
            untied head.
        embedding_std: the standard deviation of token embeddings and learned positions.
        outputs: the rule for the two projections of a block that write to the residual stream.
            "plain": like the others. "depth_scaled": their standard deviation is divided by sqrt(2
            n_layers). "zero": each block starts by adding nothing; refused with a
            reparametrisation, which divides a matrix by its size.
    """

    weights: Normal | He | Xavier
    embedding_std: Positive
    outputs: Outputs
