"""Cross-entropy of a yes-or-no answer, from a probability or from log odds.

It equals softmax's cross-entropy with two classes when one score is 0.
"""

from __future__ import annotations

from pellucid.maths.arrays import Array, log_of, ratio, times
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import extended, shares
from pellucid.maths.logistic import sigmoid, softplus


@equation(p=shares("..."), y=shares("..."))
def binary_cross_entropy(p: Array, y: Array) -> Array:
    """The surprise at a yes-or-no answer, when the prediction is a probability.

    L = -y log p - (1 - y) log(1 - p)

    Args:
        p: (...), the probability of yes. y: like p, between 0 and 1. Returns (...).
    Units:
        Nats.
    Gradient:
        `binary_cross_entropy_grad`.
    Fails:
        In float32 a p within 6e-8 of 1 is rounded to 1, and the loss of a mistake is infinite. Use
        `binary_cross_entropy_from_logits` instead.
    Raises:
        MathsError: the shapes differ, or p or y is not between 0 and 1.
    Source:
        Bishop 2006, "Pattern Recognition and Machine Learning", eq. 4.90.
    Example:
        binary_cross_entropy(array([0.9, 0.9]), array([1.0, 0.0]))
    """
    return -times(y, log_of(p)) - times(1 - y, log_of(1 - p))


@equation(binary_cross_entropy)
def binary_cross_entropy_grad(p: Array, y: Array) -> Array:
    """The gradient of `binary_cross_entropy` by the probability.

    dL/dp = (1 - y) / (1 - p) - y / p = (p - y) / (p (1 - p))

    Args:
        As `binary_cross_entropy`. Returns like p.
    """
    return ratio(1 - y, 1 - p) - ratio(y, p)


@equation(x=extended("..."), y=shares("..."))
def binary_cross_entropy_from_logits(x: Array, y: Array) -> Array:
    """The surprise at a yes-or-no answer, when the prediction is its log odds.

    L = softplus(x) - x y = -y log s(x) - (1 - y) log s(-x)

    Args:
        x: (...), the log odds of yes. y: like x, between 0 and 1. Returns (...).
    Units:
        Nats.
    Gradient:
        `binary_cross_entropy_from_logits_grad`.
    Raises:
        MathsError: the shapes differ, or y is not between 0 and 1.
    Source:
        Bishop 2006, "Pattern Recognition and Machine Learning", eq. 4.90.
    Example:
        binary_cross_entropy_from_logits(array([2.0, 1000.0]), array([1.0, 0.0]))
    """
    return times(y, softplus(-x)) + times(1 - y, softplus(x))


@equation(binary_cross_entropy_from_logits)
def binary_cross_entropy_from_logits_grad(x: Array, y: Array) -> Array:
    """The gradient of `binary_cross_entropy_from_logits` by the log odds.

    dL/dx = s(x) - y

    Args:
        As `binary_cross_entropy_from_logits`. Returns like x.
    """
    return sigmoid(x) - y


@equation(p=shares("..."), y=shares("..."))
def brier_score(p: Array, y: Array) -> Array:
    """The squared error of a probability: unlike -log p, it is never above 1.

    L = (p - y)^2

    Args:
        p: (...), the probability of yes. y: like p, between 0 and 1. Returns (...).
    Gradient:
        `brier_score_grad`.
    Fails:
        After a sigmoid its gradient, 2 (p - y) p (1 - p), vanishes when the model is confident and
        wrong.
    Raises:
        MathsError: the shapes differ, or p or y is not between 0 and 1.
    Source:
        Brier 1950, "Verification of Forecasts Expressed in Terms of Probability", eq. 2 (half of
        it: only the class yes counts).
    Example:
        brier_score(array([0.9, 0.9]), array([1.0, 0.0]))
    """
    return (p - y) ** 2


@equation(brier_score)
def brier_score_grad(p: Array, y: Array) -> Array:
    """The gradient of `brier_score` by the probability.

    dL/dp = 2 (p - y)

    Args:
        As `brier_score`. Returns like p.
    """
    return 2 * (p - y)
