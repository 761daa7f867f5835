"""Rotary positions: pairs of features rotated by angles that grow with the position."""

from __future__ import annotations

import math
from typing import Literal, get_args

from pellucid.errors import MathsError
from pellucid.maths.arrays import Array, device_of, namespace
from pellucid.maths.door import checks
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import EVEN, GREATER_THAN_ONE, Words, reals

#: The pairs of features: 2i with 2i + 1, or i with i + n_rotated / 2.
Pairing = Literal["interleaved", "half_split"]
PAIRINGS = Words(get_args(Pairing))


@equation(pairs="pairs>=0", n_rotated=EVEN, base=GREATER_THAN_ONE)
def rotary_frequencies(pairs: Array, *, n_rotated: int, base: float) -> Array:
    """The angle by which each pair of features rotates from one position to the next.

    theta_i = base^(-2 i / n_rotated),  i = 0 ... n_rotated / 2 - 1

    Args:
        pairs: (n_rotated / 2,), floating: the numbers i. Returns the same shape.
        n_rotated: how many features of a head are rotated: all of them, or fewer.
    Units:
        Radians per position.
    Source:
        Su et al. 2021, "RoFormer", eq. 15 (d -> n_rotated; they count i from 1).
    See also:
        `interpolated_frequencies`, `ntk_frequencies`, `yarn_frequencies`, `llama3_frequencies`.
    Example:
        rotary_frequencies(arange(4.0), n_rotated=8, base=10000.0)
    """
    return namespace(pairs).exp(pairs * (-2 / n_rotated * math.log(base)))


@equation(positions="... time>=0", frequencies="pairs")
def angles_at(positions: Array, frequencies: Array) -> Array:
    """The angle by which each pair of features is rotated at each position.

    angle = position theta_i

    Args:
        positions: (..., time), floating. frequencies: (pairs,). Returns (..., time, pairs).
    Units:
        Radians.
    Source:
        Su et al. 2021, "RoFormer", eq. 14 (m theta_i).
    Example:
        angles_at(arange(3.0), array([1.0, 0.01]))
    """
    xp = namespace(positions, frequencies)
    return xp.expand_dims(positions, axis=-1) * frequencies


@equation(positions="time>=0", d_head=EVEN, base=GREATER_THAN_ONE)
def rotary_angles(positions: Array, *, d_head: int, base: float) -> Array:
    """The angles of each position when every feature of a head is rotated.

    theta_i = base^(-2 i / d_head),  angle = position theta_i,  i = 0 ... d_head / 2 - 1

    Args:
        positions: (time,), floating. Returns (time, d_head / 2).
    Units:
        Radians.
    Source:
        Su et al. 2021, "RoFormer", eq. 15.
    Example:
        rotary_angles(arange(3.0), d_head=4, base=10000.0)
    """
    xp = namespace(positions)
    pairs = xp.arange(d_head // 2, dtype=positions.dtype, device=device_of(positions))
    return angles_at(positions, rotary_frequencies(pairs, n_rotated=d_head, base=base))


def _even(x: Array) -> None:
    checks.divides(2, **{"the number of features": x.shape[-1]})


@equation(_even, x=reals("... features"))
def to_half_split(x: Array) -> Array:
    """Reorder interleaved pairs of features into halves: 0, 2, 4, ... and then 1, 3, 5, ...

    For a range of numbers the result is the permutation itself. If you reorder the rows of query
    and key weights by it, half-split pairs give the scores that interleaved pairs gave.

    Args:
        x: (..., features), an even number of them. Returns the same shape.
    Gradient:
        A permutation: `to_interleaved` of the gradient.
    Source:
        Su et al. 2021, "RoFormer", eq. 15 (interleaved pairs); Llama's weights are in halves.
    Example:
        to_half_split(array([[0.0, 1.0, 2.0, 3.0]]))
    """
    xp = namespace(x)
    return xp.concat((x[..., ::2], x[..., 1::2]), axis=-1)


@equation(to_half_split)
def to_interleaved(x: Array) -> Array:
    """Reorder halves of features into interleaved pairs: 0, n, 1, n + 1, ... of 2 n features.

    Args:
        x: (..., features), an even number of them. Returns the same shape.
    Gradient:
        A permutation: `to_half_split` of the gradient.
    Source:
        Su et al. 2021, "RoFormer", eq. 15 (interleaved pairs); Llama's weights are in halves.
    Example:
        to_interleaved(array([[0.0, 1.0, 2.0, 3.0]]))
    """
    xp = namespace(x)
    half = x.shape[-1] // 2
    return xp.reshape(xp.stack((x[..., :half], x[..., half:]), axis=-1), x.shape)


def _pairs_fit(angles: Array, features: int) -> None:
    if 2 * angles.shape[-1] > features:
        raise MathsError(
            f"angles are of {angles.shape[-1]} pairs; {features} features have {features // 2}"
        )


def _pairs_of_x(x: Array, angles: Array) -> None:
    _pairs_fit(angles, x.shape[-1])


def _pairs_of_grad(grad: Array, angles: Array) -> None:
    _pairs_fit(angles, grad.shape[-1])


@equation(_pairs_of_x, x="... time>=0 d_head", angles="time>=0 pairs>=0", pairing=PAIRINGS)
def rotate(x: Array, angles: Array, *, pairing: Pairing) -> Array:
    """Rotate each pair of features, as a point in the plane, by its angle.

    (a, b) -> (a cos t - b sin t, b cos t + a sin t)

    Lengths do not change, and the product of a query at position n and a key at m depends on n - m
    only. Features without an angle stay as they are (partial rotation).

    Args:
        x: (..., time, d_head). angles: (time, pairs), 2 pairs <= d_head. Returns like x.
        pairing: "interleaved" pairs features 2i and 2i + 1, as the paper does; "half_split" pairs i
            and i + pairs, as the published weights of Llama expect.
    Gradient:
        `rotate_grad`.
    Fails:
        Beyond the training length the slow pairs reach angles that the model has never seen.
    Raises:
        MathsError: `pairing` is neither of the two.
    Source:
        Su et al. 2021, "RoFormer", eq. 34.
    See also:
        `to_half_split`, which converts weights from one pairing to the other.
    Example:
        rotate(array([[1.0, 0.0]]), array([[1.5707963267948966]]), pairing='half_split')
    """
    xp = namespace(x, angles)
    half = angles.shape[-1]
    rotated_part, unrotated = x[..., : 2 * half], x[..., 2 * half :]
    if pairing == "interleaved":
        rotated_part = to_half_split(rotated_part)
    a, b = rotated_part[..., :half], rotated_part[..., half:]
    cos, sin = xp.cos(angles), xp.sin(angles)
    rotated_part = xp.concat((a * cos - b * sin, b * cos + a * sin), axis=-1)
    if pairing == "interleaved":
        rotated_part = to_interleaved(rotated_part)
    return xp.concat((rotated_part, unrotated), axis=-1)


@equation(_pairs_of_grad, angles="time>=0 pairs>=0", grad="... time>=0 d_head", pairing=PAIRINGS)
def rotate_grad(angles: Array, grad: Array, *, pairing: Pairing) -> Array:
    """The gradient that reaches x when `grad` reaches the rotated x: `grad` rotated back.

    The transpose of a rotation is the rotation by the negative angle. It does not need x.

    Args:
        As `rotate`. grad: (..., time, d_head). Returns like grad.
    """
    return rotate(grad, -angles, pairing=pairing)
