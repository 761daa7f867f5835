"""Weights as small whole numbers with a scale."""

from __future__ import annotations

from pellucid.errors import MathsError
from pellucid.maths.arrays import Array, namespace
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import COUNT


def _at_least_two_bits(bits: int) -> None:
    if not 2 <= bits <= 16:
        raise MathsError(f"bits must be between 2 and 16, was {bits}")


@equation(_at_least_two_bits, w="... inputs", bits=COUNT)
def quantize(w: Array, *, bits: int) -> tuple[Array, Array]:
    """The nearest whole multiples of a scale, the largest entry of each row on the last one.

    s = max |w| / (2^(bits - 1) - 1),  q = round(w / s);  w is about q s, off by at most s / 2

    Args:
        w: (..., inputs). bits: in 2 to 16, the sign included. Returns q, (..., inputs), whole
            numbers as floats, and s, (..., 1).
    Fails:
        One outlier stretches the scale of its row, and few steps remain for the others: with 4 bits
        an entry below 1/14 of the largest becomes 0.
    Raises:
        MathsError: bits is not between 2 and 16.
    Source:
        Dettmers et al. 2022, "LLM.int8(): 8-bit Matrix Multiplication for Transformers at Scale",
        eq. 1 (absmax).
    Example:
        quantize(array([0.1, -0.5, 1.0]), bits=4)
    """
    xp = namespace(w)
    largest = xp.max(xp.abs(w), axis=-1, keepdims=True)
    steps = 2 ** (bits - 1) - 1
    scale = xp.where(largest > 0, largest, xp.ones_like(largest)) / steps
    return xp.round(w / scale), scale
