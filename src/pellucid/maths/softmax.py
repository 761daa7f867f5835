"""Softmax: from scores to positive shares that sum to one."""

from __future__ import annotations

from pellucid.maths.arrays import Array, device_of, namespace
from pellucid.maths.door import checks
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import POSITIVE, scores


def _maximum(x: Array) -> Array:
    """The largest entry of each row; 0 for a row that is all -inf."""
    xp = namespace(x)
    top = xp.max(x, axis=-1, keepdims=True)
    return xp.where(xp.isfinite(top), top, xp.zeros_like(top))


def _not_zero(total: Array) -> Array:
    """The totals of the rows; 1 for a row that is all -inf; nan stays nan."""
    xp = namespace(total)
    return xp.where(total == 0, xp.ones_like(total), total)


def _from_top(x: Array, temperature: float) -> Array:
    """(x - max x) / T: the maximum is subtracted first, so no T can make it overflow."""
    return (x - _maximum(x)) / temperature


@equation(x=scores("... classes"))
def logsumexp(x: Array) -> Array:
    """log Z, the logarithm of the sum of the exponentials of each row.

    log Z = m + log sum_j exp(x_j - m), m = max x

    Subtracting the maximum does not change the result and keeps every exponential at most 1. A row
    that is all -inf gives -inf.

    Args:
        x: (..., classes). Returns (...).
    Units:
        Nats.
    Gradient:
        d log Z / d x = softmax(x).
    Fails:
        Without subtracting the maximum, exp(x) overflows at x = 710 in float64, 89 in float32.
    Raises:
        MathsError: x is not floating, or has no axis.
    Source:
        Blanchard, Higham and Higham 2021, "Accurately computing the log-sum-exp and softmax
        functions", eq. 1.5.
    Example:
        logsumexp(array([1000.0, 1000.0]))
    """
    xp = namespace(x)
    top = _maximum(x)
    total = xp.sum(xp.exp(x - top), axis=-1, keepdims=True)
    log_z = xp.log(_not_zero(total)) + top
    log_z = xp.where(total == 0, xp.full_like(log_z, -xp.inf), log_z)
    return xp.squeeze(log_z, axis=-1)


@equation(x=scores("... classes"), temperature=POSITIVE)
def log_softmax(x: Array, *, temperature: float = 1.0) -> Array:
    """log p: the logarithm of softmax, computed without softmax.

    log p_i = x_i / T - log Z

    A row that is all -inf stays so.

    Args:
        x: (..., classes). Returns (..., classes).
        temperature: T, above 0.
    Units:
        Nats.
    Gradient:
        `log_softmax_grad`.
    Fails:
        Computed as log(softmax(x)), a share below 1e-308 (1e-38 in float32) is 0, and its logarithm
        -inf.
    Raises:
        MathsError: x is not floating, or the temperature not above 0.
    Source:
        Blanchard, Higham and Higham 2021, "Accurately computing the log-sum-exp and softmax
        functions", section 1.
    Example:
        log_softmax(array([0.0, -1000.0]))
        log_softmax(array([1.0, 2.0, 3.0]))
    """
    xp = namespace(x)
    x = _from_top(x, temperature)
    return x - xp.log(_not_zero(xp.sum(xp.exp(x), axis=-1, keepdims=True)))


@equation(log_softmax, grad="... classes")
def log_softmax_grad(x: Array, grad: Array, *, temperature: float = 1.0) -> Array:
    """The gradient that reaches the scores when `grad` reaches the logarithms of the shares.

    dL/dx_i = (g_i - p_i sum_j g_j) / T

    Args:
        As `log_softmax`. grad: like x. Returns like x.
    See also:
        `log_softmax`.
    """
    xp = namespace(x, grad)
    p = softmax(x, temperature=temperature)
    return (grad - p * xp.sum(grad, axis=-1, keepdims=True)) / temperature


@equation(log_softmax)
def softmax(x: Array, *, temperature: float = 1.0) -> Array:
    """Shares that grow exponentially with the scores and sum to one.

    p_i = exp(x_i / T) / sum_j exp(x_j / T)

    Adding the same number to every score changes nothing: exp(x_i + c) = exp(c) exp(x_i), so exp(c)
    cancels. That is why the maximum can be subtracted first. A temperature T below 1 sharpens the
    shares, above 1 flattens them. A row that is all -inf gives zeros, as padding needs.

    Args:
        x: (..., classes). Returns (..., classes).
        temperature: T, above 0.
    Gradient:
        `softmax_grad`; the Jacobian is `softmax_jacobian`.
    Fails:
        Saturation: if one share is close to 1, every entry of the Jacobian is close to 0, and no
        gradient passes.
    Raises:
        MathsError: x is not floating, or the temperature not above 0.
    Source:
        Bridle 1990, "Probabilistic interpretation of feedforward classification network outputs";
        Hinton, Vinyals and Dean 2015, "Distilling the Knowledge in a Neural Network", eq. 1
        (temperature).
    See also:
        `sum_normalise`, `softmax_slope`.
    Example:
        softmax(array([10.0, 5.0, 1.0]))
        softmax(array([10.0, 5.0, 1.0]), temperature=5.0)
        softmax(array([10.0, 5.0, 1.0]) + 1000)
    """
    xp = namespace(x)
    exponentials = xp.exp(_from_top(x, temperature))
    return exponentials / _not_zero(xp.sum(exponentials, axis=-1, keepdims=True))


@equation(softmax, grad="... classes")
def softmax_grad(x: Array, grad: Array, *, temperature: float = 1.0) -> Array:
    """The gradient that reaches the scores when `grad` reaches the shares.

    J = (diag(p) - p p^T) / T, so J^T g = p * (g - <p, g>) / T, without forming the Jacobian.

    Args:
        x: (..., classes), the scores. grad: (..., classes), of the loss by p. Returns like x.
    See also:
        `softmax`.
    """
    return softmax_jacobian_product(x, grad, temperature=temperature)


@equation(softmax)
def softmax_jacobian(x: Array, *, temperature: float = 1.0) -> Array:
    """The derivatives of all shares by all scores, as one matrix.

    dp_i / dx_j = p_i (delta_ij - p_j) / T,  that is  J = (diag(p) - p p^T) / T

    It is symmetric, its rows and columns sum to zero, and it has no negative eigenvalue. Use it to
    look at small cases; `softmax_jacobian_product` multiplies by it without forming it.

    Args:
        x: (..., classes). Returns (..., classes, classes).
    Source:
        Bridle 1990, "Probabilistic interpretation of feedforward classification network outputs".
    See also:
        `softmax_jacobian_product`.
    Example:
        softmax_jacobian(array([1.0, 2.0, 3.0]))
    """
    xp = namespace(x)
    p = softmax(x, temperature=temperature)
    identity = xp.eye(p.shape[-1], dtype=p.dtype, device=device_of(p))
    return p[..., :, None] * (identity - p[..., None, :]) / temperature


@equation(softmax, direction="... classes")
def softmax_jacobian_product(x: Array, direction: Array, *, temperature: float = 1.0) -> Array:
    """The Jacobian of softmax times a vector, without forming the Jacobian.

    J v = p * (v - <p, v>) / T,  J = (diag(p) - p p^T) / T

    It is the change of the shares when the scores move along v. Because J is symmetric, it is also
    the gradient that reaches the scores when v reaches the shares.

    Args:
        x: (..., classes), the scores. direction: v, like x. Returns like x.
    Raises:
        MathsError: x and direction have different shapes, or the temperature is not above 0.
    Source:
        Bridle 1990, "Probabilistic interpretation of feedforward classification network outputs".
    Example:
        softmax_jacobian_product(array([1.0, 2.0, 3.0]), array([1.0, 0.0, 0.0]))
    """
    xp = namespace(x, direction)
    p = softmax(x, temperature=temperature)
    return p * (direction - xp.sum(p * direction, axis=-1, keepdims=True)) / temperature


def _sum_is_not_zero(x: Array) -> None:
    checks.not_zero(**{"the sum of x": _sum(x)})


@equation(_sum_is_not_zero, x="... classes")
def sum_normalise(x: Array) -> Array:
    """Scores divided by their sum, to compare with softmax.

    y_i = x_i / sum_j x_j

    Args:
        x: (..., classes). Returns (..., classes).
    Gradient:
        `sum_normalise_grad`.
    Fails:
        Negative scores give negative shares or shares above 1. Scores that sum to zero give no
        shares. Adding a number to every score changes the shares. The largest score gets hardly
        more than the others.
    Raises:
        MathsError: x is not floating, or a row sums to zero.
    Source:
        Luce 1959, "Individual Choice Behavior", chapter 1 (v -> x).
    See also:
        `softmax`, which does this with the exponentials.
    Example:
        sum_normalise(array([10.0, 5.0, 1.0]))
        sum_normalise(array([2.0, -1.0, -0.5]))
    """
    return x / _sum(x)


@equation(sum_normalise, grad="... classes")
def sum_normalise_grad(x: Array, grad: Array) -> Array:
    """The gradient that reaches the scores when `grad` reaches their shares.

    dy_i / dx_j = (delta_ij - y_i) / S,  so  dL/dx_j = (g_j - <g, y>) / S,  S = sum x

    Args:
        As `sum_normalise`. grad: like x. Returns like x.
    See also:
        `sum_normalise`.
    """
    xp = namespace(x, grad)
    total = _sum(x)
    return (grad - xp.sum(grad * x / total, axis=-1, keepdims=True)) / total


def _sum(x: Array) -> Array:
    return namespace(x).sum(x, axis=-1, keepdims=True)
