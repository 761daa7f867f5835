"""Scaled rotary frequencies, so that a model can read longer texts than in training."""

from __future__ import annotations

import math

from pellucid.errors import MathsError
from pellucid.maths.arrays import Array, device_of, namespace
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import (
    ANY_NUMBER,
    AT_LEAST_ONE,
    COUNT,
    FLAG,
    GREATER_THAN_ONE,
    NOT_NEGATIVE,
    POSITIVE,
    Either,
    positive,
)


def _pairs(frequencies: Array) -> Array:
    """0, 1, 2, ...: the number of each pair."""
    xp = namespace(frequencies)
    n = frequencies.shape[-1]
    return xp.arange(n, dtype=frequencies.dtype, device=device_of(frequencies))


def _interpolated_but(frequencies: Array, kept_share: Array, factor: float) -> Array:
    """Each frequency divided by `factor`, except for the share of it that is kept."""
    return frequencies * (kept_share + (1 - kept_share) / factor)


@equation(frequencies="pairs", factor=Either(POSITIVE, positive("pairs")))
def interpolated_frequencies(frequencies: Array, *, factor: float | Array) -> Array:
    """Every frequency divided by one factor: as if positions were closer together.

    theta_i' = theta_i / s

    Args:
        frequencies: (pairs,). Returns the same shape.
        factor: s, the new length over the original length; or one per pair, as in LongRoPE.
    Source:
        Chen et al. 2023, "Extending Context Window of Large Language Models via Positional
        Interpolation", section 2.3; Ding et al. 2024, "LongRoPE".
    Example:
        interpolated_frequencies(array([1.0, 0.1, 0.01]), factor=4.0)
    """
    return frequencies / factor


@equation(frequencies="pairs", factor=POSITIVE)
def ntk_frequencies(frequencies: Array, *, factor: float) -> Array:
    """High frequencies kept, low ones divided: the first by 1, the last by `factor`.

    theta_i' = theta_i s^(-i / (n - 1)),  n pairs

    It is the same as a larger base: base' = base s^(d / (d - 2)) with d = 2 n.

    Args:
        frequencies: (pairs,). Returns the same shape.
        factor: s, the new length over the original length.
    Source:
        Peng et al. 2023, "YaRN", section 3.1 ("NTK-aware" interpolation).
    Example:
        ntk_frequencies(array([1.0, 0.1, 0.01]), factor=4.0)
    """
    xp = namespace(frequencies)
    last = max(frequencies.shape[-1] - 1, 1)
    return frequencies * xp.exp(_pairs(frequencies) * (-math.log(factor) / last))


@equation(frequencies="pairs", factor=AT_LEAST_ONE, length=COUNT, original_length=COUNT)
def dynamic_ntk_frequencies(
    frequencies: Array, *, factor: float, length: int, original_length: int
) -> Array:
    """NTK-aware frequencies whose factor grows with the text; unchanged up to the original length.

    s' = s L' / L - (s - 1),  L' = max(length, L)

    Args:
        frequencies: (pairs,). Returns the same shape.
        factor: s. length: tokens in the text. original_length: L.
    Source:
        Peng et al. 2023, "YaRN", section 3.3 ("Dynamic NTK"), where s = 1; other s as in the
        library transformers.
    Example:
        dynamic_ntk_frequencies(array([1.0, 0.1, 0.01]), factor=4.0, length=100, original_length=64)
    """
    longer = max(length, original_length) / original_length
    return ntk_frequencies(frequencies, factor=factor * longer - (factor - 1))


def _low_below_high(low: float, high: float) -> None:
    if low >= high:
        raise MathsError(f"low is {low} and high is {high}; low has to be below high")


@equation(
    _low_below_high,
    frequencies="pairs",
    factor=POSITIVE,
    original_length=COUNT,
    low=NOT_NEGATIVE,
    high=POSITIVE,
)
def llama3_frequencies(
    frequencies: Array, *, factor: float, original_length: int, low: float, high: float
) -> Array:
    """Keep pairs that turn often in the original length, divide slow ones, mix in between.

    theta_i' = (1 - kept_i) theta_i / s + kept_i theta_i
    kept_i = (r_i - low) / (high - low), within [0, 1],  r_i = L theta_i / (2 pi)

    r_i is the number of full turns of pair i in the original length.

    Args:
        frequencies: (pairs,). Returns the same shape.
        factor: s. original_length: L.
        low, high: Llama's low_freq_factor and high_freq_factor; YaRN's alpha and beta.
    Units:
        low, high: turns.
    Source:
        The code released with Llama 3.1, written there with wavelengths 2 pi / theta_i. It is the
        formula of Peng et al. 2023, "YaRN", section 3.2 ("NTK-by-parts").
    Example:
        llama3_frequencies(array([1.0, 0.1, 0.001]), factor=8.0, original_length=64, low=1.0,
            high=4.0)
    """
    xp = namespace(frequencies)
    turns = frequencies * (original_length / (2 * math.pi))
    kept_share = xp.clip((turns - low) / (high - low), 0.0, 1.0)
    return _interpolated_but(frequencies, kept_share, factor)


def _slow_below_fast(beta_slow: float, beta_fast: float) -> None:
    if beta_slow > beta_fast:
        raise MathsError(f"beta_slow is {beta_slow}; it has to be at most beta_fast, {beta_fast}")
    if math.isinf(2 * math.pi * beta_fast):
        raise MathsError(f"beta_fast is {beta_fast:g} turns, and their angle is not finite")


@equation(
    _slow_below_fast,
    frequencies="pairs",
    factor=POSITIVE,
    original_length=COUNT,
    base=GREATER_THAN_ONE,
    beta_fast=POSITIVE,
    beta_slow=POSITIVE,
    truncate=FLAG,
)
def yarn_frequencies(
    frequencies: Array,
    *,
    factor: float,
    original_length: int,
    base: float,
    beta_fast: float,
    beta_slow: float,
    truncate: bool = True,
) -> Array:
    """Keep pairs that turn often, divide slow ones, with a linear ramp over the pairs in between.

    theta_i' = (1 - kept_i) theta_i / s + kept_i theta_i
    kept_i = 1 - (i - i_fast) / (i_slow - i_fast), within [0, 1]
    i_beta = n log(L / (2 pi beta)) / log(base), n pairs: the pair that turns beta times in L

    The paper's ramp is linear in the number of turns, as in `llama3_frequencies`. The released
    code, and so every published model, has a ramp that is linear in i, as here.

    Args:
        frequencies: (pairs,). Returns the same shape.
        factor: s. original_length: L. base: the base of the frequencies.
        beta_fast, beta_slow: the paper's beta and alpha: 32 and 1 for Llama.
        truncate: round the ends of the ramp outwards to whole pairs.
    Units:
        beta_fast, beta_slow: turns.
    Source:
        Peng et al. 2023, "YaRN", sections 3.2 and 3.4, and its released code.
    See also:
        `yarn_attention_factor`.
    Example:
        yarn_frequencies(array([1.0, 0.1, 0.001]), factor=8.0, original_length=64, base=10000.0,
            beta_fast=8.0, beta_slow=1.0)
    """
    xp = namespace(frequencies)
    n = frequencies.shape[-1]

    def pair_that_turns(times: float) -> float:
        return n * math.log(original_length / (2 * math.pi * times)) / math.log(base)

    first, last = pair_that_turns(beta_fast), pair_that_turns(beta_slow)
    if truncate:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, 2 * n - 1)
    width = last - first if last != first else 1e-3  # as released: a ramp of no width is a step
    kept_share = 1 - xp.clip((_pairs(frequencies) - first) / width, 0.0, 1.0)
    return _interpolated_but(frequencies, kept_share, factor)


@equation(factor=POSITIVE, weight=ANY_NUMBER)
def yarn_attention_factor(factor: float, *, weight: float = 1.0) -> float:
    """A factor for queries and keys that keeps attention sharp over more tokens.

    sqrt(1 / t) = 0.1 weight log(s) + 1, and 1 where s <= 1

    Scores are multiplied by its square. DeepSeek uses the quotient of two such factors with
    different weights.

    Args:
        factor: s. weight: 1 in the paper.
    Source:
        Peng et al. 2023, "YaRN", eq. 21-22.
    Example:
        yarn_attention_factor(4.0)
    """
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1
