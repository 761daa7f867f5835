"""Residual streams: why a gradient finds its way through many layers."""

from __future__ import annotations

from pellucid.maths.arrays import Array, device_of, namespace
from pellucid.maths.door.equation import equation


@equation(jacobian="... features features")
def residual_jacobian(jacobian: Array) -> Array:
    """The Jacobian of x + f(x): the identity, plus what the layer does.

    dy/dx = I + f'(x)

    Whatever f' is, small or lost, the gradient that reaches y reaches x too.

    Args:
        jacobian: f'(x), (..., features, features). Returns the same shape.
    Gradient:
        The identity: each entry goes through.
    Fails:
        Where f' is nearly -I, nothing passes.
    Raises:
        MathsError: the last two axes differ.
    Source:
        He et al. 2016, "Identity Mappings in Deep Residual Networks", eq. 5.
    Example:
        residual_jacobian(array([[0.1, 0.0], [0.2, 0.0]]))
    """
    n = jacobian.shape[-1]
    return jacobian + namespace(jacobian).eye(n, dtype=jacobian.dtype, device=device_of(jacobian))


@equation(jacobians="layers features features")
def chained_jacobian(jacobians: Array) -> Array:
    """The Jacobian of layers one after the other: the product of theirs.

    J = J_L ... J_2 J_1

    Args:
        jacobians: (layers, features, features), the first layer first. Returns (features,
            features).
    Fails:
        Without residuals its size is about the L-th power of one layer's: it vanishes or explodes.
    Raises:
        MathsError: there is no layer, or the last two axes differ.
    Source:
        Pascanu, Mikolov and Bengio 2013, "On the difficulty of training recurrent neural networks",
        eq. 5.
    See also:
        `residual_jacobian`.
    Example:
        chained_jacobian(array([[[0.5]], [[0.5]], [[0.5]]]))
        chained_jacobian(residual_jacobian(array([[[0.5]], [[0.5]], [[0.5]]])))
    """
    product = jacobians[0, ...]
    for layer in range(1, jacobians.shape[0]):
        product = jacobians[layer, ...] @ product
    return product
