"""Positions as functions of whole numbers: sinusoids to add, angles to turn by.

Comes in: positions. Goes out: arrays. It does not know attention.
"""

from __future__ import annotations

import math

from pellucid.maths.arrays import Array, namespace


def rotary_angles(positions: Array, *, d_head: int, base: float) -> Array:
    """The angle by which each pair of features is turned at each position.

    theta_i = base^(-2 i / d_head),  angle = position theta_i,  i = 0 ... d_head / 2 - 1

    Args:
        positions: (time,), floating. Returns (time, d_head / 2).
    Units:
        Radians.
    Source:
        Su et al. 2021, "RoFormer", eq. 15.
    """
    xp = namespace(positions)
    exponents = xp.arange(0, d_head, 2, dtype=positions.dtype, device=positions.device) / d_head
    theta = xp.exp(-exponents * math.log(base))
    return xp.expand_dims(positions, axis=-1) * theta


def sinusoid(positions: Array, *, d_model: int, base: float) -> Array:
    """Sines and cosines of each position at falling frequencies, interleaved.

    PE(pos, 2i) = sin(pos / base^(2i / d_model)),  PE(pos, 2i + 1) = cos(the same)

    Args:
        positions: (time,), floating. Returns (time, d_model).
    Source:
        Vaswani et al. 2017, "Attention Is All You Need", section 3.5.
    """
    xp = namespace(positions)
    angles = rotary_angles(positions, d_head=d_model, base=base)
    pairs = xp.stack((xp.sin(angles), xp.cos(angles)), axis=-1)
    return xp.reshape(pairs, (positions.shape[0], d_model))
