"""Norms, and reparametrisations of linear layers: one frozen class per kind.

Statistics that span time or the batch leak: with BatchNorm a token's features depend on its
neighbours in the batch, and with InstanceNorm and BatchNorm on tokens that come after it. So a
causal model with either sees the future; LayerNorm, RMSNorm and GroupNorm look at one token alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from pellucid.config.checks import Checked, Count, Positive, PositiveShare
from pellucid.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerNorm(Checked):
    """(x - mean) / sqrt(var + eps) * gain (+ bias), over the features of one token.

    Attributes:
        eps: added to the variance.
        bias: whether the norm has a bias.
        unit_offset: whether the gain is 1 + the weight, as in Gemma and Nemotron: decay pulls it to
            1.
        gain: whether the norm has a gain; OLMo has norms without parameters.
    """

    eps: Positive
    bias: bool
    unit_offset: bool = False
    gain: bool = True

    def _check(self) -> None:
        if not self.gain and (self.bias or self.unit_offset):
            raise ConfigError(
                "bias and unit_offset must be false with gain = false: a LayerNorm without a gain "
                "has no parameters"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class RMSNorm(Checked):
    """x / sqrt(mean(x^2) + eps) * gain, over the features of one token.

    Attributes:
        eps: added to the mean square.
        unit_offset: whether the gain is 1 + the weight, as in Gemma and Nemotron: decay pulls it to
            1.
        gain: whether the norm has a gain; OLMo has norms without parameters.
    """

    eps: Positive
    unit_offset: bool = False
    gain: bool = True

    def _check(self) -> None:
        if not self.gain and self.unit_offset:
            raise ConfigError(
                "unit_offset must be false with gain = false: an RMSNorm without a gain has no "
                "parameters"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchNorm(Checked):
    """(x - mean) / sqrt(var + eps) * gain + bias, each feature over batch and time.

    Training uses the statistics of the batch, evaluation uses running ones. Leaks the future and
    the neighbours while training.

    Attributes:
        eps: added to the variance.
        momentum: the share of a new batch in the running statistics.
    """

    eps: Positive
    momentum: PositiveShare


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupNorm(Checked):
    """As LayerNorm with a bias, over each of `n_groups` groups of the features of one token.

    Attributes:
        eps: added to the variance.
        n_groups: how many groups; the width must be a multiple of it.
    """

    eps: Positive
    n_groups: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceNorm(Checked):
    """(x - mean) / sqrt(var + eps) * gain + bias, each feature over the time of one sequence.

    Leaks the future, always: the statistics span the whole sequence.

    Attributes:
        eps: added to the variance.
    """

    eps: Positive


#: A normalisation of states.
Norm = LayerNorm | RMSNorm | BatchNorm | GroupNorm | InstanceNorm


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightNorm:
    """W = g v / |v|, row by row: length and direction of each output's weights apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpectralNorm(Checked):
    """W / sigma(W): the largest singular value becomes 1.

    Attributes:
        power_iterations: how many iterations per update find that value.
    """

    power_iterations: Count


#: A normalisation of weights.
Reparametrisation = WeightNorm | SpectralNorm
