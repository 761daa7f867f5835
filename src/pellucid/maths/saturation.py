"""How saturated a softmax is: equal shares pass a gradient, a single share of 1 passes none."""

from __future__ import annotations

import math

from pellucid.maths.arrays import Array, namespace
from pellucid.maths.divergences import entropy, entropy_grad
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import distribution


@equation(p=distribution("... classes>=2"))
def normalised_entropy(p: Array) -> Array:
    """Entropy divided by its maximum: 1 for equal shares, 0 if one share is 1.

    H(p) / log K,  H(p) = -sum_i p_i log p_i

    Args:
        p: (..., classes), at least two classes. Returns (...).
    Gradient:
        `normalised_entropy_grad`.
    Raises:
        MathsError: p does not sum to one, or has fewer than two classes.
    Source:
        Shannon 1948, "A Mathematical Theory of Communication", section 7 ("relative entropy").
    Example:
        normalised_entropy(array([0.25, 0.25, 0.25, 0.25]))
        normalised_entropy(softmax(array([10.0, 5.0, 1.0])))
    """
    return entropy(p) / math.log(p.shape[-1])


@equation(normalised_entropy)
def normalised_entropy_grad(p: Array) -> Array:
    """The gradient of `normalised_entropy` by the shares.

    dL/dp_i = -(log p_i + 1) / log K

    Args:
        As `normalised_entropy`. Returns like p.
    """
    return entropy_grad(p) / math.log(p.shape[-1])


@equation(p=distribution("... classes"))
def renyi2_entropy(p: Array) -> Array:
    """Renyi's entropy of order 2: the logarithm of the effective number of classes.

    H_2(p) = -log sum_i p_i^2

    It lies between 0 and log K, and never above Shannon's entropy.

    Args:
        p: (..., classes). Returns (...).
    Units:
        Nats.
    Gradient:
        `renyi2_entropy_grad`.
    Raises:
        MathsError: p does not sum to one.
    Source:
        Renyi 1961, "On Measures of Entropy and Information", eq. 1.21 (alpha = 2).
    Example:
        renyi2_entropy(array([0.5, 0.5, 0.0]))
    """
    xp = namespace(p)
    return -xp.log(xp.sum(p**2, axis=-1))


@equation(renyi2_entropy)
def renyi2_entropy_grad(p: Array) -> Array:
    """The gradient of `renyi2_entropy` by the shares.

    dL/dp_i = -2 p_i / sum_j p_j^2

    Args:
        As `renyi2_entropy`. Returns like p.
    """
    return -2 * p / namespace(p).sum(p**2, axis=-1, keepdims=True)


@equation(renyi2_entropy)
def softmax_slope(p: Array) -> Array:
    """The largest diagonal entry of softmax's Jacobian: how much gradient can still pass.

    max_i p_i (1 - p_i)

    It is at most 1/4, when a share is 1/2, and 0 when one share is 1, whatever the loss is.

    Args:
        p: (..., classes), the shares. Returns (...).
    Fails:
        In float32 it is 0 if a share is within 6e-8 of 1, although the exact value is not.
    Raises:
        MathsError: p does not sum to one.
    Source:
        Vaswani et al. 2017, "Attention Is All You Need", section 3.2.1 and footnote 4: the reason
        why scores are divided by sqrt(d_k).
    See also:
        `softmax_jacobian`.
    Example:
        softmax_slope(softmax(array([1.0, 2.0, 3.0])))
        softmax_slope(softmax(array([10.0, 20.0, 30.0])))
    """
    return namespace(p).max(p * (1 - p), axis=-1)
