"""Norms: features brought to mean 0 and mean square 1, then to a learned scale and place.

The members of the family differ only in which numbers share a mean.

In all of them, with unit the standardised x and s = 1 / sqrt(var + eps):
dL/dx = s (g' - mean(g') - unit mean(g' unit)),  g' = gain dL/dy
"""

from __future__ import annotations

from pellucid.maths.arrays import Array, namespace
from pellucid.maths.door import checks
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import COUNT, NOT_NEGATIVE

#: The axes that share a mean.
Axes = int | tuple[int, ...]


def standardised(x: Array, axes: Axes, eps: float) -> tuple[Array, Array]:
    """x with mean 0 and variance 1 over `axes`, and the inverse deviation it was multiplied by."""
    xp = namespace(x)
    centred = x - xp.mean(x, axis=axes, keepdims=True)
    scale = 1 / xp.sqrt(xp.mean(centred**2, axis=axes, keepdims=True) + eps)
    return centred * scale, scale


def standardised_grad(unit: Array, scale: Array, grad: Array, axes: Axes) -> Array:
    """The gradient that reaches x: without its mean, and without its part along x itself."""
    xp = namespace(unit, grad)
    mean = xp.mean(grad, axis=axes, keepdims=True)
    unit_part = xp.mean(grad * unit, axis=axes, keepdims=True)
    return scale * (grad - mean - unit * unit_part)


def over_tokens(x: Array) -> Array:
    """The sum of each feature over every token: what reaches a gain or a bias."""
    return namespace(x).sum(x, axis=tuple(range(x.ndim - 1)))


@equation(x="... features", gain="features", bias="features", eps=NOT_NEGATIVE)
def layer_norm(x: Array, gain: Array, bias: Array, *, eps: float) -> Array:
    """Each token's features with mean 0 and variance 1, times a gain, plus a bias.

    y = (x - mean) / sqrt(var + eps) gain + bias,  over the features of one token

    Args:
        x: (..., features). gain, bias: (features,). Returns like x.
    Gradient:
        `layer_norm_grad`.
    Fails:
        A token whose features are all alike becomes the bias, and eps alone decides its gradient.
    Raises:
        MathsError: a vector has not one number for each feature, or eps is negative.
    Source:
        Ba, Kiros and Hinton 2016, "Layer Normalization", eq. 3-4.
    Example:
        layer_norm(array([1.0, 2.0, 3.0, 6.0]), ones(4), zeros(4), eps=1e-5)
    """
    return standardised(x, -1, eps)[0] * gain + bias


@equation(layer_norm, grad="... features")
def layer_norm_grad(
    x: Array, gain: Array, grad: Array, *, eps: float
) -> tuple[Array, Array, Array]:
    """The gradients that reach x, gain and bias when `grad` reaches `layer_norm`.

    dL/dx = s (g' - mean(g') - unit mean(g' unit)),  g' = gain g
    dL/dgain = sum of g unit over tokens,  dL/dbias = sum of g over tokens

    Args:
        As `layer_norm`; the bias is not needed. grad: like x. Returns dx, dgain, dbias.
    """
    unit, scale = standardised(x, -1, eps)
    dx = standardised_grad(unit, scale, grad * gain, -1)
    return dx, over_tokens(grad * unit), over_tokens(grad)


@equation(x="... features", gain="features", eps=NOT_NEGATIVE)
def rms_norm(x: Array, gain: Array, *, eps: float) -> Array:
    """Each token's features with mean square 1, times a gain; the mean is left alone.

    y = x / sqrt(mean(x^2) + eps) gain,  over the features of one token

    Args:
        x: (..., features). gain: (features,). Returns like x.
    Gradient:
        `rms_norm_grad`.
    Fails:
        Only its scale is taken out: a mean that grows takes the place of what varies.
    Raises:
        MathsError: a vector has not one number for each feature, or eps is negative.
    Source:
        Zhang and Sennrich 2019, "Root Mean Square Layer Normalization", eq. 4.
    Example:
        rms_norm(array([1.0, 2.0, 3.0, 6.0]), ones(4), eps=1e-5)
    """
    xp = namespace(x, gain)
    return x / xp.sqrt(xp.mean(x**2, axis=-1, keepdims=True) + eps) * gain


@equation(rms_norm, grad="... features")
def rms_norm_grad(x: Array, gain: Array, grad: Array, *, eps: float) -> tuple[Array, Array]:
    """The gradients that reach x and gain when `grad` reaches `rms_norm`.

    dL/dx = s (g' - unit mean(g' unit)),  unit = s x,  g' = gain g
    dL/dgain = sum of g unit over tokens

    Args:
        As `rms_norm`. grad: like x. Returns dx, dgain.
    """
    xp = namespace(x, gain, grad)
    scale = 1 / xp.sqrt(xp.mean(x**2, axis=-1, keepdims=True) + eps)
    unit, gained = x * scale, grad * gain
    unit_part = xp.mean(gained * unit, axis=-1, keepdims=True)
    return scale * (gained - unit * unit_part), over_tokens(grad * unit)


def _grouped(x: Array, n_groups: int) -> Array:
    return namespace(x).reshape(x, (*x.shape[:-1], n_groups, x.shape[-1] // n_groups))


def _n_groups_divides(x: Array, n_groups: int) -> None:
    checks.divides(n_groups, **{"the number of features": x.shape[-1]})


@equation(
    _n_groups_divides,
    x="... features",
    gain="features",
    bias="features",
    n_groups=COUNT,
    eps=NOT_NEGATIVE,
)
def group_norm(x: Array, gain: Array, bias: Array, *, n_groups: int, eps: float) -> Array:
    """Each group of a token's features with mean 0 and variance 1, times a gain, plus a bias.

    y = (x - mean) / sqrt(var + eps) gain + bias,  over neighbouring features of one token

    One group makes it a layer norm. The means are of one token alone, so that no token sees
    another; for images, Wu and He take them over places too.

    Args:
        x: (..., features), as many as n_groups divides. gain, bias: (features,). Returns like x.
    Gradient:
        `group_norm_grad`.
    Fails:
        A group of one feature is always zero.
    Raises:
        MathsError: a vector has not one number for each feature, or eps is negative.
    Source:
        Wu and He 2018, "Group Normalization", section 3.
    Example:
        group_norm(array([[1.0, 3.0, 10.0, 30.0]]), ones(4), zeros(4), n_groups=2, eps=1e-5)
    """
    unit, _ = standardised(_grouped(x, n_groups), -1, eps)
    return namespace(x).reshape(unit, x.shape) * gain + bias


@equation(group_norm, grad="... features")
def group_norm_grad(
    x: Array, gain: Array, grad: Array, *, n_groups: int, eps: float
) -> tuple[Array, Array, Array]:
    """The gradients that reach x, gain and bias when `grad` reaches `group_norm`.

    As `layer_norm_grad`, group by group.

    Args:
        As `group_norm`; the bias is not needed. grad: like x. Returns dx, dgain, dbias.
    """
    xp = namespace(x, gain, grad)
    unit, scale = standardised(_grouped(x, n_groups), -1, eps)
    dx = standardised_grad(unit, scale, _grouped(grad * gain, n_groups), -1)
    unit = xp.reshape(unit, x.shape)
    return xp.reshape(dx, x.shape), over_tokens(grad * unit), over_tokens(grad)


@equation(x="... time features", gain="features", bias="features", eps=NOT_NEGATIVE)
def instance_norm(x: Array, gain: Array, bias: Array, *, eps: float) -> Array:
    """Each feature with mean 0 and variance 1 over the time of its sequence.

    y = (x - mean) / sqrt(var + eps) gain + bias,  over the tokens of one sequence

    Every token is told of those after it: not for models that predict them.

    Args:
        x: (..., time, features). gain, bias: (features,). Returns like x.
    Gradient:
        `instance_norm_grad`.
    Fails:
        A sequence of one token is all zeros; before its end, every token's answer changes.
    Raises:
        MathsError: a vector has not one number for each feature, or eps is negative.
    Source:
        Ulyanov, Vedaldi and Lempitsky 2016, "Instance Normalization: The Missing Ingredient for
        Fast Stylization" (places of an image -> time).
    Example:
        instance_norm(array([[1.0, 10.0], [3.0, 20.0], [5.0, 60.0]]), ones(2), zeros(2), eps=1e-5)
    """
    return standardised(x, -2, eps)[0] * gain + bias


@equation(instance_norm, grad="... time features")
def instance_norm_grad(
    x: Array, gain: Array, grad: Array, *, eps: float
) -> tuple[Array, Array, Array]:
    """The gradients that reach x, gain and bias when `grad` reaches `instance_norm`.

    As `layer_norm_grad`, with means over time.

    Args:
        As `instance_norm`; the bias is not needed. grad: like x. Returns dx, dgain, dbias.
    """
    unit, scale = standardised(x, -2, eps)
    dx = standardised_grad(unit, scale, grad * gain, -2)
    return dx, over_tokens(grad * unit), over_tokens(grad)
