"""The length of a gradient: its bound, and how much of it is noise."""

from __future__ import annotations

from pellucid.maths.arrays import Array, namespace
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import POSITIVE


@equation(grad="... weights", max_norm=POSITIVE)
def clip_by_norm(grad: Array, *, max_norm: float) -> Array:
    """A gradient that keeps its direction and is no longer than a bound.

    y = g min(1, c / |g|),  |g| = sqrt(sum g^2)

    The norm is of all gradients of a model together: clipping each tensor alone would turn the
    direction.

    Args:
        grad: (..., weights), all gradients of a model as one vector. max_norm: c, above 0. Returns
            like grad.
    Gradient:
        `clip_by_norm_grad`.
    Fails:
        If every gradient is clipped, the step has one length whatever the loss: the learning rate
        is another one than the one that was set.
    Raises:
        MathsError: the bound is not above 0.
    Source:
        Pascanu, Mikolov and Bengio 2013, "On the difficulty of training recurrent neural networks",
        algorithm 1.
    Example:
        clip_by_norm(array([3.0, 4.0]), max_norm=1.0)
        clip_by_norm(array([0.3, 0.4]), max_norm=1.0)
    """
    return grad * _factor(grad, max_norm)


@equation(clip_by_norm, upstream="... weights")
def clip_by_norm_grad(grad: Array, upstream: Array, *, max_norm: float) -> Array:
    """The gradient of `clip_by_norm`, where `upstream` reaches its result.

    u where |g| <= c;  c / |g| (u - ĝ (ĝ . u)), ĝ = g / |g|, where it is longer

    Args:
        grad: (..., weights). upstream: u, like grad. Returns like grad.
    """
    xp = namespace(grad, upstream)
    norm = _norm(grad)
    unit = grad / xp.where(norm > 0, norm, xp.ones_like(norm))
    orthogonal_part = upstream - unit * xp.sum(unit * upstream, axis=-1, keepdims=True)
    return xp.where(norm > max_norm, _factor(grad, max_norm) * orthogonal_part, upstream)


@equation(gradients="... samples>=2 weights")
def gradient_noise_scale(gradients: Array) -> Array:
    """The batch size at which the noise of a gradient is as large as the gradient.

    B = tr(S) / |G|^2

    S is the covariance of the gradients of single examples and G their mean. Below B, a batch twice
    as large needs nearly half the steps. Far above it, it needs as many.

    Args:
        gradients: of single examples, (..., samples, weights). Returns (...).
    Units:
        Examples.
    Fails:
        |G|^2 is overestimated by tr(S) / samples, so few samples give a number that is too small.
    Raises:
        MathsError: there is only one sample, or all gradients are 0.
    Source:
        McCandlish et al. 2018, "An Empirical Model of Large-Batch Training", eq. 2.9.
    Example:
        gradient_noise_scale(array([[1.0, 0.0], [1.0, 1.0], [1.0, -1.0]]))
    """
    xp = namespace(gradients)
    spread = xp.sum(xp.var(gradients, axis=-2, correction=1), axis=-1)
    return spread / xp.sum(xp.mean(gradients, axis=-2) ** 2, axis=-1)


def _norm(grad: Array) -> Array:
    xp = namespace(grad)
    return xp.sqrt(xp.sum(grad**2, axis=-1, keepdims=True))


def _factor(grad: Array, max_norm: float) -> Array:
    xp = namespace(grad)
    norm = _norm(grad)
    longer = norm > max_norm
    return xp.where(longer, max_norm / xp.where(longer, norm, xp.ones_like(norm)), 1.0 + 0 * norm)
