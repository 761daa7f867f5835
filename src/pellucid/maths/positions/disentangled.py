"""Disentangled attention: scores from content and distance, each with its own vectors."""

from __future__ import annotations

from math import floor

from pellucid.errors import MathsError
from pellucid.maths.arrays import Array, namespace
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import COUNT, EVEN, index, wholes
from pellucid.maths.output_head import embedding, embedding_grad


def _beyond_exact(n_buckets: int, max_distance: int) -> None:
    if n_buckets < 4:
        raise MathsError(f"n_buckets is {n_buckets}; it has to be 4 or more")
    if max_distance <= n_buckets // 4 + 1:
        raise MathsError(
            f"max_distance is {max_distance}; it has to be above {n_buckets // 4 + 1}, as smaller "
            "distances have rows of their own"
        )


@equation(_beyond_exact, distances=wholes("..."), n_buckets=EVEN, max_distance=COUNT)
def log_distance_rows(distances: Array, *, n_buckets: int, max_distance: int) -> Array:
    """The row of a distance among learned vectors: near distances alone, far ones in wider buckets.

    With S = n_buckets / 2, E = S // 2 and D = max_distance - 1, the bucket of a distance r >= 0 is
    r                                                  where r <= E
    E + ceil(log(r / E) / log(D / E) (E - 1))          otherwise
    and row = clip(S - sign(distance) bucket, 0, 2 S - 1).

    Args:
        distances: (...), whole numbers, key minus query. Returns (...), in 0 ... n_buckets - 1:
            the higher rows for keys before the query.
    Raises:
        MathsError: max_distance is not above the distances that have rows of their own.
    Source:
        He, Gao and Chen 2021, "DeBERTaV3", its released code (the buckets of DeBERTa v2).
    Example:
        log_distance_rows(array([-100, -3, 0, 3, 100]), n_buckets=16, max_distance=32)
    """
    xp = namespace(distances)
    span = n_buckets // 2
    n_exact = span // 2
    steps = xp.abs(distances)
    bucket = xp.clip(steps, 0, n_exact)
    for last in _last_distances(n_exact, span, max_distance):
        bucket = bucket + xp.astype(steps > last, distances.dtype)
    return xp.clip(span - xp.sign(distances) * bucket, 0, n_buckets - 1)


def _last_distances(n_exact: int, span: int, max_distance: int) -> list[int]:
    """The largest distance of each bucket, from the last that has one distance alone."""
    if n_exact == 1:
        return []
    ratio = (max_distance - 1) / n_exact
    # rounding may put a power that should be whole a little below it
    powers = (ratio ** (k / (n_exact - 1)) for k in range(span - n_exact))
    return [floor(n_exact * power + 1e-9) for power in powers]


@equation(
    q="... queries d_head",
    k="... keys d_head",
    position_q="n_buckets d_head",
    position_k="n_buckets d_head",
    rows=index("queries keys", size="n_buckets"),
)
def disentangled_bias(
    q: Array, k: Array, position_q: Array, position_k: Array, rows: Array
) -> Array:
    """What distance adds to scores: the query meets the key's distance, the key the query's.

    bias_nm = q_n . P_k[r_nm] + k_m . P_q[r_nm]

    The first product is content to position, the second position to content. Each is left out by a
    table of zeros. With the product of the contents, q_n . k_m, there are up to three terms, so the
    scores are divided by sqrt(d_head times the number of terms).

    Args:
        q: (..., queries, d_head). k: (..., keys, d_head). position_q, position_k: P_q and P_k,
            (n_buckets, d_head). rows: r, (queries, keys). Returns (..., queries, keys).
    Gradient:
        `disentangled_bias_grad`.
    Source:
        He, Liu, Gao and Chen 2020, "DeBERTa: Decoding-enhanced BERT with Disentangled Attention",
        eq. 4.
    See also:
        `log_distance_rows`, which gives the rows in DeBERTa v2 and v3.
    Example:
        disentangled_bias(ones((1, 2)), ones((1, 2)), zeros((1, 2)), ones((1, 2)), array([[0]]))
    """
    xp = namespace(q, k, position_q, position_k)
    content_to_position = xp.sum(q[..., :, None, :] * embedding(position_k, rows), axis=-1)
    return content_to_position + xp.sum(k[..., None, :, :] * embedding(position_q, rows), axis=-1)


@equation(disentangled_bias, grad="... queries keys")
def disentangled_bias_grad(
    q: Array, k: Array, position_q: Array, position_k: Array, rows: Array, grad: Array
) -> tuple[Array, Array, Array, Array]:
    """The gradients that reach q, k, P_q and P_k when `grad` reaches their bias.

    dL/dq_n = sum_m g_nm P_k[r_nm],             dL/dk_m = sum_n g_nm P_q[r_nm]
    dL/dP_q[i] = sum of g_nm k_m where r_nm = i,  dL/dP_k[i] = sum of g_nm q_n where r_nm = i

    Args:
        q: (..., queries, d_head). k: (..., keys, d_head). position_q, position_k: (n_buckets,
            d_head). rows: (queries, keys). grad: (..., queries, keys). Returns the gradients in the
            shapes of q, k, position_q and position_k.
    """
    xp = namespace(q, k, position_q, position_k, grad)
    g, n_buckets = grad[..., None], position_q.shape[0]
    of_q = xp.sum(g * embedding(position_k, rows), axis=-2)
    of_k = xp.sum(g * embedding(position_q, rows), axis=-3)
    by_pair = xp.broadcast_to(rows, grad.shape)
    of_position_q = embedding_grad(by_pair, g * k[..., None, :, :], vocab_size=n_buckets)
    of_position_k = embedding_grad(by_pair, g * q[..., :, None, :], vocab_size=n_buckets)
    return of_q, of_k, of_position_q, of_position_k
