"""Batch norm: features standardised by the statistics of a batch, or by those seen in training."""

from __future__ import annotations

import math

from pellucid.errors import MathsError
from pellucid.maths.arrays import Array, namespace
from pellucid.maths.door import checks
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import FRACTION, NOT_NEGATIVE, not_negative
from pellucid.maths.norms import over_tokens, standardised, standardised_grad


def _token_axes(x: Array) -> tuple[int, ...]:
    return tuple(range(x.ndim - 1))


def _at_least_one_token(x: Array) -> None:
    checks.at_least(1, **{"the number of tokens": math.prod(x.shape[:-1])})


def _at_least_two_tokens(x: Array) -> None:
    n = math.prod(x.shape[:-1])
    if n < 2:
        raise MathsError(f"batch statistics of {n} tokens; at least 2 are needed for a variance")


@equation(
    _at_least_one_token, x="... time features", gain="features", bias="features", eps=NOT_NEGATIVE
)
def batch_norm(x: Array, gain: Array, bias: Array, *, eps: float) -> Array:
    """Each feature with mean 0 and variance 1 over the tokens of the batch, as in training.

    y = (x - mean) / sqrt(var + eps) gain + bias,  over every axis but the last

    So every token's output depends on all others: later tokens and tokens of other sequences.

    Args:
        x: (..., features). gain, bias: (features,). Returns like x.
    Gradient:
        `batch_norm_grad`.
    Fails:
        One token alone becomes the bias; information leaks from later tokens and other sequences.
    Raises:
        MathsError: a vector does not have one number per feature, or eps is negative.
    Source:
        Ioffe and Szegedy 2015, "Batch Normalization", algorithm 1 (gamma, beta -> gain, bias).
    Example:
        batch_norm(array([[1.0, 10.0], [3.0, 20.0], [5.0, 60.0]]), ones(2), zeros(2), eps=1e-5)
    """
    return standardised(x, _token_axes(x), eps)[0] * gain + bias


@equation(batch_norm, grad="... time features")
def batch_norm_grad(
    x: Array, gain: Array, grad: Array, *, eps: float
) -> tuple[Array, Array, Array]:
    """The gradients that reach x, gain and bias when `grad` reaches `batch_norm`.

    dL/dx = s (g' - mean(g') - unit mean(g' unit)),  g' = gain g
    dL/dgain = sum of g unit over tokens,  dL/dbias = sum of g over tokens

    Args:
        As `batch_norm`; the bias is not needed. grad: like x. Returns dx, dgain, dbias.
    Source:
        Ioffe and Szegedy 2015, "Batch Normalization", section 3.
    """
    axes = _token_axes(x)
    unit, scale = standardised(x, axes, eps)
    dx = standardised_grad(unit, scale, grad * gain, axes)
    return dx, over_tokens(grad * unit), over_tokens(grad)


def _not_constant(var: Array, eps: float) -> None:
    checks.not_zero(**{"var + eps": var + eps})


@equation(
    _not_constant,
    x="... features",
    gain="features",
    bias="features",
    mean="features",
    var=not_negative("features"),
    eps=NOT_NEGATIVE,
)
def batch_norm_inference(
    x: Array, gain: Array, bias: Array, mean: Array, var: Array, *, eps: float
) -> Array:
    """Batch norm in use: the running statistics of training make it a linear function of x.

    y = (x - mean) / sqrt(var + eps) gain + bias,  with running mean and var

    Args:
        x: (..., features). gain, bias, mean, var: (features,). Returns like x.
    Gradient:
        `batch_norm_inference_grad`.
    Fails:
        If the running statistics have not converged, it computes another function than in training.
    Raises:
        MathsError: a vector does not have one number per feature, or eps is negative.
    Source:
        Ioffe and Szegedy 2015, "Batch Normalization", algorithm 2.
    Example:
        batch_norm_inference(array([[1.0, 10.0]]), ones(2), zeros(2), array([3.0, 30.0]),
            array([4.0, 400.0]), eps=1e-5)
    """
    return (x - mean) / namespace(x, var).sqrt(var + eps) * gain + bias


@equation(batch_norm_inference, grad="... features")
def batch_norm_inference_grad(
    x: Array, gain: Array, mean: Array, var: Array, grad: Array, *, eps: float
) -> tuple[Array, Array, Array]:
    """The gradients that reach x, gain and bias when `grad` reaches `batch_norm_inference`.

    dL/dx = g gain / sqrt(var + eps): the running statistics are constants.

    Args:
        As `batch_norm_inference`; the bias is not needed. Returns dx, dgain, dbias.
    """
    scale = 1 / namespace(x, var).sqrt(var + eps)
    return grad * gain * scale, over_tokens(grad * (x - mean) * scale), over_tokens(grad)


@equation(
    _at_least_two_tokens,
    mean="features",
    var=not_negative("features"),
    x="... time features",
    momentum=FRACTION,
)
def batch_norm_update(mean: Array, var: Array, x: Array, *, momentum: float) -> tuple[Array, Array]:
    """Running statistics, moved towards the statistics of a batch.

    mean <- (1 - momentum) mean + momentum mean(x),  var <- (1 - momentum) var + momentum var(x)

    var(x) here divides by n - 1: the batch is a sample. `batch_norm` divides by n.

    Args:
        mean, var: (features,). x: (..., features), at least two tokens. Returns mean, var.
        momentum: the weight of the new batch, as in torch.
    Raises:
        MathsError: x has fewer than two tokens, so its variance is undefined.
    Source:
        Ioffe and Szegedy 2015, "Batch Normalization", algorithm 2, step 10. There all batches have
        the same weight; libraries give older batches less.
    Example:
        batch_norm_update(zeros(2), ones(2), array([[1.0, 10.0], [3.0, 20.0]]), momentum=0.1)
    """
    xp, axes = namespace(mean, var, x), _token_axes(x)
    spread = xp.var(x, axis=axes, correction=1)
    return (
        (1 - momentum) * mean + momentum * xp.mean(x, axis=axes),
        (1 - momentum) * var + momentum * spread,
    )
