"""Measures of attention's shares that never form the shares."""

from __future__ import annotations

import math

from pellucid.maths.arrays import Array, namespace
from pellucid.maths.attention.attention import attention
from pellucid.maths.divergences import entropy_of_logits_grad
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import COUNT, Either, mask, masked, wholes
from pellucid.maths.softmax import logsumexp


@equation(q="... queries d_head", k="... keys d_head", mask=mask("... queries keys"))
def attention_logsumexp(q: Array, k: Array, *, mask: Array | None = None) -> Array:
    """log Z of each query: the logarithm of the sum of the exponentials of its scores.

    log Z_i = log sum_j exp(q_i k_j / sqrt(d_head))

    Args:
        q: (..., queries, d_head). k: (..., keys, d_head). mask: as in `attention`. Returns (...,
            queries); -inf for a query that sees no key.
    Units:
        Nats.
    Raises:
        MathsError: q and k have different widths.
    Source:
        Dao 2023, "FlashAttention-2", section 3.1.
    Example:
        attention_logsumexp(array([[1.0, 0.0]]), array([[1.0, 0.0], [0.0, 1.0]]))
    """
    return logsumexp(_scores(q, k, mask))


@equation(attention_logsumexp)
def attention_entropy(q: Array, k: Array, *, mask: Array | None = None) -> Array:
    """The entropy of each query's shares, from log Z and an attention whose values are the keys.

    H_i = log Z_i - q_i attention(q, k, k)_i / sqrt(d_head)

    It holds because log p_ij = s_ij - log Z_i, and the mean score under p is q_i times the mean
    key. A kernel that never forms its shares gives both terms.

    Args:
        q: (..., queries, d_head). k: (..., keys, d_head). mask: as in `attention`. Returns (...,
            queries); 0 for a query that sees no key.
    Units:
        Nats; at most the logarithm of the number of visible keys.
    Gradient:
        `attention_entropy_grad`.
    Fails:
        It is a difference of large numbers: scores of 1e4 in float32 leave an error of 1e-3.
    Raises:
        MathsError: q and k have different widths.
    Source:
        Zhai et al. 2023, "Stabilizing Transformer Training by Preventing Attention Entropy
        Collapse", section 3 (the entropy); the identity follows from its definition.
    See also:
        `entropy`, `largest_score_bounds`.
    Example:
        attention_entropy(array([[1.0, 0.0]]), array([[1.0, 0.0], [0.0, 1.0]]))
    """
    xp = namespace(q, k)
    log_z = attention_logsumexp(q, k, mask=mask)
    mean_key = attention(q, k, k, mask=mask)
    mean_score = xp.sum(q * mean_key, axis=-1) / math.sqrt(q.shape[-1])
    return xp.where(xp.isinf(log_z), xp.zeros_like(log_z), log_z) - mean_score


@equation(attention_logsumexp)
def attention_entropy_grad(q: Array, k: Array, *, mask: Array | None = None) -> tuple[Array, Array]:
    """The gradients that reach queries and keys when 1 reaches every entropy.

    ds_ij = -p_ij (log p_ij + H_i),  dq = ds k / sqrt(d_head),  dk = ds^T q / sqrt(d_head)

    Args:
        As `attention_entropy`. Returns dq, dk.
    """
    xp = namespace(q, k)
    ds = entropy_of_logits_grad(_scores(q, k, mask)) / math.sqrt(q.shape[-1])
    return ds @ k, xp.matrix_transpose(ds) @ q


@equation(log_z=masked("..."), n_keys=Either(COUNT, wholes("...", least=1)))
def largest_score_bounds(log_z: Array, n_keys: int | Array) -> tuple[Array, Array]:
    """A lower and an upper bound of the largest score, from log Z alone.

    log Z - log n <= max_j s_j <= log Z

    The upper bound is tight when it matters: if one score is far above the others, log Z is that
    score.

    Args:
        log_z: (...). n_keys: n, the number of visible keys, at least 1: a number, or (...). Returns
            the lower and the upper bound, (...).
    Raises:
        MathsError: log_z is not floating, or n is not above 0.
    Source:
        Blanchard, Higham and Higham 2021, "Accurately computing the log-sum-exp and softmax
        functions", section 1.
    See also:
        `attention_logsumexp`.
    Example:
        largest_score_bounds(logsumexp(array([1.0, 2.0, 3.0])), 3)
        largest_score_bounds(logsumexp(array([1.0, 2.0, 30.0])), 3)
    """
    xp = namespace(log_z)
    if isinstance(n_keys, int):
        return log_z - math.log(n_keys), log_z
    return log_z - xp.log(xp.astype(n_keys, log_z.dtype)), log_z


def _scores(q: Array, k: Array, mask: Array | None) -> Array:
    xp = namespace(q, k)
    scores = q @ xp.matrix_transpose(k) / math.sqrt(q.shape[-1])
    return scores if mask is None else xp.where(mask, scores, xp.full_like(scores, -xp.inf))
