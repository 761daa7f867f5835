"""Relative positions: functions of the distance from a query to a key."""

from __future__ import annotations

import math

from pellucid.errors import MathsError
from pellucid.maths.arrays import Array, device_of, namespace
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import (
    COUNT,
    FLAG,
    FROM_ZERO,
    POSITIVE,
    index,
    not_negative,
    reals,
    wholes,
)


@equation(query_positions=reals("queries>=0"), key_positions=reals("keys>=0"))
def relative_distances(query_positions: Array, key_positions: Array) -> Array:
    """How many positions each key is after each query; negative if it is before.

    distance_nm = m - n

    Args:
        query_positions: (queries,). key_positions: (keys,). Returns (queries, keys).
    Source:
        Shaw, Uszkoreit and Vaswani 2018, "Self-Attention with Relative Position Representations",
        section 3.2 (j - i).
    Example:
        relative_distances(arange(3.0), arange(3.0))
    """
    xp = namespace(query_positions, key_positions)
    return xp.expand_dims(key_positions, axis=0) - xp.expand_dims(query_positions, axis=1)


@equation(distances=wholes("..."), max_distance=FROM_ZERO)
def clipped_distance_index(distances: Array, *, max_distance: int) -> Array:
    """The index of a distance among 2 max_distance + 1 learned vectors.

    index = clip(distance, -max_distance, max_distance) + max_distance

    Args:
        distances: (...), whole numbers. Returns (...), in 0 ... 2 max_distance.
    Source:
        Shaw, Uszkoreit and Vaswani 2018, "Self-Attention with Relative Position Representations",
        section 3.2 (k -> max_distance).
    Example:
        clipped_distance_index(array([-9, -1, 0, 1, 9]), max_distance=2)
    """
    return namespace(distances).clip(distances, -max_distance, max_distance) + max_distance


def _bucket_starts(n_exact: int, n_buckets: int, max_distance: int) -> list[int]:
    """The smallest distance in each bucket of several distances, except for the first bucket."""
    n_wide = n_buckets - n_exact
    ratio = max_distance / n_exact
    # rounding may put a power that should be whole a little above it
    return [math.ceil(n_exact * ratio ** (k / n_wide) - 1e-9) for k in range(1, n_wide)]


def _beyond_exact(n_buckets: int, max_distance: int, causal: bool) -> None:
    n_exact = _n_exact(n_buckets, causal)
    if n_exact < 1 or (not causal and n_buckets % 2):
        raise MathsError(
            f"n_buckets is {n_buckets}; it has to be {2 if causal else 4} or more, and"
            " even if there are buckets for both sides"
        )
    if max_distance <= n_exact:
        raise MathsError(f"max_distance is {max_distance}; it has to be above {n_exact}")


def _n_exact(n_buckets: int, causal: bool) -> int:
    """The number of distances, on one side, that have a bucket of their own."""
    return (n_buckets if causal else n_buckets // 2) // 2


@equation(_beyond_exact, distances=wholes("..."), n_buckets=COUNT, max_distance=COUNT, causal=FLAG)
def distance_buckets(distances: Array, *, n_buckets: int, max_distance: int, causal: bool) -> Array:
    """The bucket of a distance, for one learned bias per bucket; large distances share buckets.

    With E = n_buckets / 2 and D = max_distance, the bucket of a key r tokens before the query is
    r                                                                where r < E
    min(E + floor(log(r / E) / log(D / E) (n_buckets - E)), n_buckets - 1)    otherwise

    If causal, keys after the query count as r = 0. Otherwise the first half of the buckets is for
    keys before the query and the second half for keys after it. Each half follows the formula with
    n_buckets / 2.

    Args:
        distances: (...), whole numbers, key minus query. Returns (...), in 0 ... n_buckets - 1.
    Raises:
        MathsError: max_distance is not above the distances that have buckets of their own.
    Source:
        Raffel et al. 2020, "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
        Transformer", section 2.1; the formula is from the released code.
    Example:
        distance_buckets(array([-100, -3, 0, 3, 100]), n_buckets=8, max_distance=16, causal=False)
    """
    xp = namespace(distances)
    n_buckets = n_buckets if causal else n_buckets // 2
    steps_back = xp.clip(-distances, 0, None) if causal else xp.abs(distances)
    n_exact = n_buckets // 2
    starts = _bucket_starts(n_exact, n_buckets, max_distance)
    bucket = xp.clip(steps_back, 0, n_exact)
    for start in starts:
        bucket = bucket + xp.astype(steps_back >= start, distances.dtype)
    return bucket if causal else bucket + n_buckets * xp.astype(distances > 0, distances.dtype)


@equation(heads=not_negative("..."), n_heads=COUNT, max_exponent=POSITIVE)
def alibi_slopes(heads: Array, *, n_heads: int, max_exponent: float = 8.0) -> Array:
    """How fast each head's scores fall with distance: slopes in a geometric series.

    slope_h = 2^(-max_exponent (h + 1) / n),      h < n, the largest power of two up to n_heads
    slope_h = 2^(-max_exponent (h - n + 1/2) / n), h >= n: slopes halfway between the first ones

    Args:
        heads: (...), floating: the numbers h, counted from 0. Returns the same shape.
    Source:
        Press, Smith and Lewis 2022, "Train Short, Test Long: Attention with Linear Biases Enables
        Input Length Extrapolation", section 3; if n_heads is not a power of two, as in the released
        code.
    Example:
        alibi_slopes(arange(8.0), n_heads=8)
    """
    xp = namespace(heads)
    n = 2 ** (n_heads.bit_length() - 1)
    steps = xp.where(heads < n, heads + 1, heads - n + 0.5)
    return xp.exp(steps * (-math.log(2) * max_exponent / n))


@equation(slopes="heads", distances="queries keys")
def alibi_bias(slopes: Array, distances: Array) -> Array:
    """A penalty on scores that grows with the distance; each head has its own slope.

    bias_hnm = -slope_h |m - n|

    Args:
        slopes: (heads,). distances: (queries, keys), floating. Returns (heads, queries, keys).
    Source:
        Press, Smith and Lewis 2022, "Train Short, Test Long", section 3.
    See also:
        `alibi_slopes`, `relative_distances`.
    Example:
        alibi_bias(array([0.5, 0.25]), relative_distances(arange(3.0), arange(3.0)))
    """
    return -slopes[:, None, None] * namespace(slopes, distances).abs(distances)


@equation(
    q="... queries d_head",
    vectors="rows d_head",
    index=index("queries keys", size="rows"),
)
def relative_scores(q: Array, vectors: Array, index: Array) -> Array:
    """What a distance adds to a score: the query times a learned vector of the distance.

    s_ij = q_i . a_(r(i, j)),  r the clipped distance

    It is added to q_i . k_j before the division by sqrt(d_head).

    Args:
        q: (..., queries, d_head). vectors: a, (rows, d_head), one for each distance. index: the row
            of each query and key, (queries, keys), as `clipped_distance_index` gives it. Returns
            (..., queries, keys).
    Gradient:
        `relative_scores_grad`.
    Raises:
        MathsError: a shape does not fit, or an index has no row.
    Source:
        Shaw, Uszkoreit and Vaswani 2018, "Self-Attention with Relative Position Representations",
        eq. 4 and 5.
    See also:
        `clipped_distance_index`, `alibi_bias`.
    Example:
        relative_scores(eye(2), eye(2), array([[0, 1], [0, 0]]))
    """
    xp = namespace(q, vectors, index)
    by_row = q @ xp.matrix_transpose(vectors)
    places = xp.broadcast_to(index, (*q.shape[:-2], *index.shape))
    return xp.take_along_axis(by_row, places, axis=-1)


@equation(relative_scores, grad="... queries keys")
def relative_scores_grad(
    q: Array, vectors: Array, index: Array, grad: Array
) -> tuple[Array, Array]:
    """The gradients that reach the queries and the vectors.

    dq_i = sum_j g_ij a_(r(i, j)),  da_r = sum over all i, j with r(i, j) = r of g_ij q_i

    Args:
        As `relative_scores`. grad: like its result. Returns dq, dvectors.
    """
    xp = namespace(q, vectors, index, grad)
    rows = xp.arange(vectors.shape[0], dtype=index.dtype, device=device_of(index))
    chosen = xp.astype(index[..., None] == rows, grad.dtype)
    by_row = xp.sum(grad[..., None] * chosen, axis=-2)
    flat, queries = (xp.reshape(x, (-1, x.shape[-1])) for x in (by_row, q))
    return by_row @ vectors, xp.matrix_transpose(flat) @ queries
