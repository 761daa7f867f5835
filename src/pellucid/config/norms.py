"""Norms, and reparametrisations of linear layers: one frozen class per kind.

Statistics that span time or the batch leak: with BatchNorm a token's features depend on its
neighbours in the batch, and with InstanceNorm and BatchNorm on tokens that come after it. So a
causal model with either sees the future; LayerNorm, RMSNorm and GroupNorm look at one token alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from pellucid.config.checks import at_least, positive
from pellucid.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerNorm:
    """(x - mean) / sqrt(var + eps) * gain (+ bias), over the features of one token."""

    eps: float
    bias: bool

    def __post_init__(self) -> None:
        positive("eps", self.eps)


@dataclass(frozen=True, slots=True, kw_only=True)
class RMSNorm:
    """x / sqrt(mean(x^2) + eps) * gain, over the features of one token.

    With `unit_offset` the gain is 1 + the weight, as in Gemma: decay pulls it to one.
    """

    eps: float
    unit_offset: bool = False

    def __post_init__(self) -> None:
        positive("eps", self.eps)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchNorm:
    """(x - mean) / sqrt(var + eps) * gain + bias, each feature over batch and time.

    While training by the batch's own statistics; afterwards by running ones, of which `momentum`
    is the share a new batch gets. Leaks the future and the neighbours while training.
    """

    eps: float
    momentum: float

    def __post_init__(self) -> None:
        positive("eps", self.eps)
        if not 0 < self.momentum <= 1:
            raise ConfigError(f"momentum must be in (0, 1], was {self.momentum}")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupNorm:
    """As LayerNorm, over each of `n_groups` groups of the features of one token."""

    eps: float
    n_groups: int

    def __post_init__(self) -> None:
        positive("eps", self.eps)
        at_least("n_groups", self.n_groups, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceNorm:
    """(x - mean) / sqrt(var + eps) * gain + bias, each feature over the time of one sequence.

    Leaks the future, always: the statistics span the whole sequence.
    """

    eps: float

    def __post_init__(self) -> None:
        positive("eps", self.eps)


Norm = LayerNorm | RMSNorm | BatchNorm | GroupNorm | InstanceNorm


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightNorm:
    """W = g v / |v|, row by row: length and direction of each output's weights apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpectralNorm:
    """W / sigma(W): the largest singular value, by `power_iterations` per update, becomes 1."""

    power_iterations: int

    def __post_init__(self) -> None:
        at_least("power_iterations", self.power_iterations, 1)


Reparametrisation = WeightNorm | SpectralNorm
