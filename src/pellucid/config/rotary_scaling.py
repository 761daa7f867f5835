"""How rotary angles change for texts longer than in training: one frozen class per rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pellucid.config.checks import AtLeast, Checked, Count, Factors, Positive
from pellucid.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearScaling(Checked):
    """Positions divided by `factor`: position interpolation.

    Attributes:
        factor: the new length over the old one.
    """

    factor: Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class NTKScaling(Checked):
    """A larger base, so that the slowest angle is divided by `factor` and the fastest stays.

    Attributes:
        factor: the new length over the old one.
    """

    factor: Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class YaRN(Checked):
    """Slow angles divided by `factor`, fast ones kept, a ramp between them.

    Attributes:
        factor: the new length over the old one.
        original_context_length: the length in training.
        beta_fast: the turns within that length at which the ramp starts; more than `beta_slow`.
        beta_slow: the turns at which it ends.
        attention_factor: cosines and sines are multiplied by it.
        truncated: whether the ends of the ramp are rounded to whole features.
    """

    factor: Positive
    original_context_length: Count
    beta_fast: float
    beta_slow: Positive
    attention_factor: Positive
    truncated: bool = True

    def _check(self) -> None:
        if self.beta_fast <= self.beta_slow:
            raise ConfigError(
                f"beta_fast must be greater than beta_slow, was {self.beta_fast} and "
                f"{self.beta_slow}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Llama3Scaling(Checked):
    """As YaRN, the ramp given by wave lengths.

    Attributes:
        factor: the new length over the old one.
        low_frequency_factor: the ramp's longest wave is `original_context_length` divided by it.
        high_frequency_factor: its shortest wave is `original_context_length` divided by it; greater
            than the other.
        original_context_length: the length in training.
    """

    factor: Positive
    low_frequency_factor: Positive
    high_frequency_factor: float
    original_context_length: Count

    def _check(self) -> None:
        if self.high_frequency_factor <= self.low_frequency_factor:
            raise ConfigError(
                "high_frequency_factor must be greater than low_frequency_factor, was "
                f"{self.high_frequency_factor} and {self.low_frequency_factor}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicNTK(Checked):
    """`NTKScaling` of texts longer than `original_context_length`, and none of others.

    A text of n tokens has the factor `factor` n / original_context_length - (`factor` - 1), so
    every angle depends on the length of the text so far.

    Attributes:
        factor: how fast the scaling grows with the text.
        original_context_length: the length in training.
    """

    factor: Annotated[float, AtLeast(1)]
    original_context_length: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class LongRoPE(Checked):
    """Each angle divided by a factor of its own, as in Phi-3; long texts have other factors.

    Attributes:
        short: the factors for texts of up to `original_context_length` tokens.
        long: the factors for every token of a longer text.
        original_context_length: the length in training.
        attention_factor: cosines and sines are multiplied by it.
    """

    short: Factors
    long: Factors
    original_context_length: Count
    attention_factor: Positive

    def _check(self) -> None:
        if len(self.short) != len(self.long):
            raise ConfigError(
                f"short and long must have as many factors, was {len(self.short)} and "
                f"{len(self.long)}: one for each pair of rotated features"
            )


#: How rotary positions are stretched to longer texts.
RotaryScaling = LinearScaling | NTKScaling | YaRN | Llama3Scaling | DynamicNTK | LongRoPE
