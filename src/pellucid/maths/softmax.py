"""Softmax: scores become shares that are positive and sum to one.

Comes in: scores (logits) along the last axis. Goes out: probabilities, their logarithms, or the
logarithm of their normaliser Z. It does not know what the scores are of.
"""

from __future__ import annotations

from pellucid.maths.arrays import Array, namespace


def _maximum(x: Array) -> Array:
    """The largest entry of each row, and 0 where a row is -inf throughout."""
    xp = namespace(x)
    top = xp.max(x, axis=-1, keepdims=True)
    return xp.where(xp.isfinite(top), top, xp.zeros_like(top))


def _not_zero(total: Array) -> Array:
    """The totals of the rows, and 1 where a row is -inf throughout; nan stays nan."""
    xp = namespace(total)
    return xp.where(total == 0, xp.ones_like(total), total)


def logsumexp(x: Array) -> Array:
    """log Z, the logarithm of the sum of the exponentials of each row.

    log Z = m + log sum_j exp(x_j - m), m = max x

    Subtracting the maximum changes nothing and keeps every exponential at most 1. A row that is
    masked throughout gives -inf.

    Args:
        x: (..., classes). Returns (...).
    Gradient:
        d log Z / d x = softmax(x).
    Source:
        Blanchard, Higham and Higham 2021, "Accurately computing the log-sum-exp and softmax
        functions", eq. 1.5.
    """
    xp = namespace(x)
    top = _maximum(x)
    total = xp.sum(xp.exp(x - top), axis=-1, keepdims=True)
    log_z = xp.log(_not_zero(total)) + top
    log_z = xp.where(total == 0, xp.full_like(log_z, -xp.inf), log_z)
    return xp.squeeze(log_z, axis=-1)


def log_softmax(x: Array) -> Array:
    """log p: the logarithm of softmax without forming softmax.

    log p_i = x_i - log Z

    A row that is masked throughout stays -inf.

    Args:
        x: (..., classes). Returns (..., classes), in nats.
    """
    xp = namespace(x)
    log_z = xp.expand_dims(logsumexp(x), axis=-1)
    # -inf - -inf would be nan
    return x - xp.where(log_z == -xp.inf, xp.zeros_like(log_z), log_z)


def softmax(x: Array) -> Array:
    """Shares that grow exponentially with the scores and sum to one.

    p_i = exp(x_i) / sum_j exp(x_j)

    A row that is masked throughout (-inf) gives zeros, as padding needs.

    Args:
        x: (..., classes). Returns (..., classes).
    Gradient:
        `softmax_grad`.
    Source:
        Bridle 1990, "Probabilistic interpretation of feedforward classification network outputs".
    """
    xp = namespace(x)
    exponentials = xp.exp(x - _maximum(x))
    return exponentials / _not_zero(xp.sum(exponentials, axis=-1, keepdims=True))


def softmax_grad(x: Array, grad: Array) -> Array:
    """The gradient that reaches the scores when `grad` reaches the shares.

    J = diag(p) - p p^T, so J^T g = p * (g - <p, g>): the Jacobian itself is never formed.

    Args:
        x: (..., classes), the scores. grad: (..., classes), of the loss by p. Returns like x.
    See also:
        `softmax`.
    """
    xp = namespace(x, grad)
    p = softmax(x)
    return p * (grad - xp.sum(p * grad, axis=-1, keepdims=True))
