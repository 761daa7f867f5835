"""Positions as vectors to add: sines and cosines of each position at decreasing frequencies."""

from __future__ import annotations

import math

from pellucid.maths.arrays import Array, device_of, namespace
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import ANY_NUMBER, EVEN, FLAG, GREATER_THAN_ONE
from pellucid.maths.positions.rotary import PAIRINGS, Pairing, angles_at, to_interleaved


@equation(
    positions="time>=0",
    d_model=EVEN,
    base=GREATER_THAN_ONE,
    pairing=PAIRINGS,
    offset=ANY_NUMBER,
    down_to_base=FLAG,
)
def sinusoid(
    positions: Array,
    *,
    d_model: int,
    base: float,
    pairing: Pairing = "interleaved",
    offset: float = 0.0,
    down_to_base: bool = False,
) -> Array:
    """Sines and cosines of each position at decreasing frequencies.

    PE(pos, 2i) = sin((pos + offset) theta_i),  PE(pos, 2i + 1) = cos(the same)
    theta_i = base^(-i / n),  i = 0 ... n - 1,  n = d_model / 2

    For every pos, rotating the vector at pos by the angles k theta_i gives the vector at pos + k.

    Args:
        positions: (time,), floating. Returns (time, d_model).
        pairing: "interleaved" puts each cosine next to its sine, as the formula does; "half_split"
            puts all sines before all cosines, as tensor2tensor and fairseq do.
        offset: added to each position; fairseq counts from the id of padding + 1.
        down_to_base: theta_i = base^(-i / (n - 1)), so that the last frequency is exactly 1 / base,
            as in tensor2tensor and fairseq.
    Fails:
        Positions beyond the training length get vectors that no layer has seen.
    Raises:
        MathsError: `pairing` is neither of the two, or d_model is odd.
    Source:
        Vaswani et al. 2017, "Attention Is All You Need", section 3.5.
    See also:
        `rotate`, which turns queries and keys by the same angles.
    Example:
        sinusoid(arange(3.0), d_model=4, base=10000.0)
    """
    xp = namespace(positions)
    n = d_model // 2
    steps = max(n - 1, 1) if down_to_base else n
    exponents = xp.arange(n, dtype=positions.dtype, device=device_of(positions)) / steps
    angles = angles_at(positions + offset, xp.exp(-exponents * math.log(base)))
    halves = xp.concat((xp.sin(angles), xp.cos(angles)), axis=-1)
    return to_interleaved(halves) if pairing == "interleaved" else halves
