"""Norms of weights: rows of a given length, or a largest singular value of 1."""

from __future__ import annotations

from pellucid.errors import MathsError
from pellucid.maths.arrays import Array, namespace
from pellucid.maths.door import checks
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import FLAG, FROM_ZERO, not_negative


def _length(x: Array) -> Array:
    """The length of each vector along the last axis, which is kept."""
    xp = namespace(x)
    return xp.sqrt(xp.sum(x**2, axis=-1, keepdims=True))


def _no_zero_rows(v: Array) -> None:
    checks.not_zero(**{"the length of a row of v": _length(v)})


@equation(_no_zero_rows, v="... outputs inputs", gain="... outputs")
def weight_norm(v: Array, gain: Array) -> Array:
    """A matrix whose rows have the directions of v's rows and the lengths in `gain`.

    w = gain v / |v|

    Args:
        v: (..., outputs, inputs), no row of zeros. gain: (..., outputs). Returns like v.
    Gradient:
        `weight_norm_grad`.
    Raises:
        MathsError: a row of v is zero, and so has no direction.
    Source:
        Salimans and Kingma 2016, "Weight Normalization", eq. 2 (g -> gain).
    Example:
        weight_norm(array([[3.0, 4.0]]), array([2.0]))
    """
    return gain[..., None] * v / _length(v)


@equation(weight_norm, grad="... outputs inputs")
def weight_norm_grad(v: Array, gain: Array, grad: Array) -> tuple[Array, Array]:
    """The gradients that reach v and gain when `grad` reaches w.

    dL/dgain = <grad, v> / |v|,  dL/dv = gain / |v| (grad - dL/dgain v / |v|)

    The gradient is perpendicular to v, because the length of v does not change w.

    Args:
        As `weight_norm`. grad: like v. Returns dv, dgain.
    Source:
        Salimans and Kingma 2016, "Weight Normalization", eq. 3.
    """
    xp = namespace(v, gain, grad)
    length = _length(v)
    direction = v / length
    along_direction = xp.sum(grad * direction, axis=-1, keepdims=True)
    return gain[..., None] / length * (grad - along_direction * direction), along_direction[..., 0]


def _at_least_one_step(steps: int) -> None:
    if steps < 1:
        raise MathsError(f"{steps} steps of power iteration; at least 1 is needed to find v")


@equation(_at_least_one_step, w="... rows columns", u="... rows", steps=FROM_ZERO)
def power_iteration(w: Array, u: Array, *, steps: int) -> tuple[Array, Array]:
    """Approximately the singular vectors of the largest singular value of a matrix.

    v <- w^T u / |w^T u|,  u <- w v / |w v|,  repeated

    In training, one step per update is enough, because w changes little and u is kept.

    Args:
        w: (..., rows, columns), not zero. u: (..., rows), a start that is not perpendicular to the
            answer. Returns u and v: (..., columns).
        steps: how often to repeat.
    Raises:
        MathsError: `steps` is below 1.
    Source:
        Miyato et al. 2018, "Spectral Normalization for Generative Adversarial Networks",
        algorithm 1.
    Example:
        power_iteration(array([[2.0, 0.0], [0.0, 1.0]]), array([1.0, 1.0]), steps=5)
    """
    xp = namespace(w, u)
    transposed, v = xp.matrix_transpose(w), u
    for _ in range(steps):
        v = (transposed @ u[..., None])[..., 0]
        v = v / _length(v)
        u = (w @ v[..., None])[..., 0]
        u = u / _length(u)
    return u, v


def _stretch(w: Array, u: Array, v: Array) -> Array:
    """u^T w v: (..., 1, 1)."""
    return u[..., None, :] @ w @ v[..., None]


def _nonzero_stretch(w: Array, u: Array, v: Array) -> None:
    checks.not_zero(**{"u^T w v": _stretch(w, u, v)})


@equation(_nonzero_stretch, w="... rows columns", u="... rows", v="... columns")
def spectral_norm(w: Array, u: Array, v: Array) -> Array:
    """A matrix divided by its largest singular value, so that it makes no vector longer.

    w / sigma,  sigma = u^T w v

    Args:
        w: (..., rows, columns). u: (..., rows) and v: (..., columns), the singular vectors of the
            largest singular value, of length 1. Returns like w.
    Gradient:
        `spectral_norm_grad`.
    Fails:
        If u and v are not the singular vectors, the result can still make vectors longer.
    Source:
        Miyato et al. 2018, "Spectral Normalization for Generative Adversarial Networks", eq. 8.
    See also:
        `power_iteration`.
    Example:
        spectral_norm(array([[2.0, 0.0], [0.0, 1.0]]), array([1.0, 0.0]), array([1.0, 0.0]))
    """
    return w / _stretch(w, u, v)


@equation(spectral_norm, grad="... rows columns")
def spectral_norm_grad(w: Array, u: Array, v: Array, grad: Array) -> Array:
    """The gradient that reaches w when `grad` reaches w / sigma and u and v are constants.

    dL/dw = (grad - <grad, w / sigma> u v^T) / sigma

    At the exact singular vectors the gradient is the same if u and v depend on w, because there
    sigma does not change with them to first order.

    Args:
        As `spectral_norm`. grad: like w. Returns like w.
    Source:
        Miyato et al. 2018, "Spectral Normalization for Generative Adversarial Networks",
        section 2.3, eq. 9-12.
    """
    xp = namespace(w, u, v, grad)
    sigma = _stretch(w, u, v)
    along_direction = xp.sum(grad * w, axis=(-2, -1), keepdims=True) / sigma
    return (grad - along_direction * u[..., :, None] * v[..., None, :]) / sigma


@equation(norms=not_negative("... layers"), residual=FLAG)
def lipschitz_bound(norms: Array, *, residual: bool) -> Array:
    """How many times as far apart outputs can be as inputs, at most, after layers in turn.

    L = prod_i s_i,  and with residuals prod_i (1 + s_i)

    s_i is the constant of layer i: for a matrix its largest singular value, for ReLU 1. A bound
    below 1 without residuals means that every signal, and every gradient, shrinks.

    Args:
        norms: s, (..., layers). residual: whether a layer is x + f(x). Returns (...).
    Fails:
        It is a bound: the layers hardly ever stretch the same direction most.
    Raises:
        MathsError: a constant is negative.
    Source:
        Gouk et al. 2021, "Regularisation of Neural Networks by Enforcing Lipschitz Continuity",
        eq. 4 and section 4.3 (residual layers).
    See also:
        `spectral_norm`, `chained_jacobian`.
    Example:
        lipschitz_bound(array([2.0, 0.5, 3.0]), residual=False)
        lipschitz_bound(array([2.0, 0.5, 3.0]), residual=True)
    """
    return namespace(norms).prod(norms + 1 if residual else norms, axis=-1)
