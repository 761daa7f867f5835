"""Norms: features with mean 0 and mean square 1, then a learned scale and shift.

The norms differ in which numbers share a mean.

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
    """x with mean 0 and variance 1 over `axes`, and its factor: 1 / sqrt(var + eps)."""
    xp = namespace(x)
    centred = x - xp.mean(x, axis=axes, keepdims=True)
    scale = 1 / xp.sqrt(xp.mean(centred**2, axis=axes, keepdims=True) + eps)
    return centred * scale, scale


def standardised_grad(unit: Array, scale: Array, grad: Array, axes: Axes) -> Array:
    """The gradient that reaches x: without its mean and without its component along x."""
    xp = namespace(unit, grad)
    mean = xp.mean(grad, axis=axes, keepdims=True)
    unit_part = xp.mean(grad * unit, axis=axes, keepdims=True)
    return scale * (grad - mean - unit * unit_part)


def over_tokens(x: Array) -> Array:
    """The sum of each feature over all tokens, as in the gradient of a gain or a bias."""
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
        A token whose features are all equal becomes the bias, and its gradient depends on eps only.
    Raises:
        MathsError: a vector does not have one number per feature, or eps is negative.
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
    """Each token's features with mean square 1, times a gain; the mean is not subtracted.

    y = x / sqrt(mean(x^2) + eps) gain,  over the features of one token

    Args:
        x: (..., features). gain: (features,). Returns like x.
    Gradient:
        `rms_norm_grad`.
    Fails:
        It removes the scale only: if the mean grows, the differences between features shrink.
    Raises:
        MathsError: a vector does not have one number per feature, or eps is negative.
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

    With one group it is layer norm. Each mean is over one token, so no token depends on another;
    for images, Wu and He also take the mean over positions.

    Args:
        x: (..., features), a multiple of n_groups. gain, bias: (features,). Returns like x.
    Gradient:
        `group_norm_grad`.
    Fails:
        A group of one feature is always 0 before gain and bias.
    Raises:
        MathsError: a vector does not have one number per feature, or eps is negative.
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

    Every token depends on those after it, so do not use it in a model that predicts them.

    Args:
        x: (..., time, features). gain, bias: (features,). Returns like x.
    Gradient:
        `instance_norm_grad`.
    Fails:
        A sequence of one token becomes the bias, and each new token changes the output of all
        tokens before it.
    Raises:
        MathsError: a vector does not have one number per feature, or eps is negative.
    Source:
        Ulyanov, Vedaldi and Lempitsky 2016, "Instance Normalization: The Missing Ingredient for
        Fast Stylization" (positions in an image -> time).
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
