"""How weights start: one frozen class per rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pellucid.config.checks import Checked, Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class Normal(Checked):
    """Weights from a normal distribution of this standard deviation, whatever their shape."""

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
    """How weights start; `outputs` is the rule for the projections that write the residual.

    "depth_scaled" divides their standard deviation by sqrt(2 n_layers), "zero" starts each block
    as the identity, "plain" treats them like the others.
    """

    weights: Normal | He | Xavier
    embedding_std: Positive
    outputs: Outputs
