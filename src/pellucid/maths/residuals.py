"""Residual streams: why a gradient survives many layers."""

from __future__ import annotations

from pellucid.maths.arrays import Array, device_of, namespace
from pellucid.maths.door.equation import equation


@equation(jacobian="... features features")
def residual_jacobian(jacobian: Array) -> Array:
    """The Jacobian of x + f(x): the identity plus the layer's own Jacobian.

    dy/dx = I + f'(x)

    Even if f' is small or zero, the whole gradient of y also reaches x.

    Args:
        jacobian: f'(x), (..., features, features). Returns the same shape.
    Gradient:
        The identity: each entry passes unchanged.
    Fails:
        If f' is close to -I, no gradient passes.
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
    """The Jacobian of layers applied one after the other: the product of their Jacobians.

    J = J_L ... J_2 J_1

    Args:
        jacobians: (layers, features, features), the first layer first. Returns (features,
            features).
    Fails:
        Without residuals its size is about the size of one layer's Jacobian to the power L: it
        vanishes or explodes.
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
