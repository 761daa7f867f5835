"""Gated activations: the product of a gate and of what passes it."""

from __future__ import annotations

from pellucid.maths.activations import gelu, gelu_grad, silu, silu_grad
from pellucid.maths.arrays import Array, namespace
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import POSITIVE
from pellucid.maths.logistic import sigmoid


@equation(gate="...", up="...")
def swiglu(gate: Array, up: Array) -> Array:
    """One linear function of a token, multiplied by the SiLU of another, its gate.

    y = silu(gate) * up

    Args:
        gate, up: (..., d_ff), two linear functions of the same token. Returns (..., d_ff).
    Gradient:
        `swiglu_grad`.
    Fails:
        It grows quadratically with its input, so it can overflow float16 where SiLU does not.
    Raises:
        MathsError: the shapes differ.
    Source:
        Shazeer 2020, "GLU Variants Improve Transformer", eq. 5 (x W -> gate, x V -> up).
    Example:
        swiglu(array([-2.0, 0.0, 3.0]), array([1.0, 1.0, 2.0]))
    """
    return silu(gate) * up


@equation(swiglu, grad="...")
def swiglu_grad(gate: Array, up: Array, grad: Array) -> tuple[Array, Array]:
    """The gradients that reach gate and up when `grad` reaches `swiglu`.

    dgate = g up silu'(gate),  dup = g silu(gate)

    Args:
        gate, up, grad: (..., d_ff). Returns dgate, dup.
    """
    return silu_grad(gate, grad * up), grad * silu(gate)


@equation(gate="...", up="...", limit=POSITIVE, slope=POSITIVE)
def clamped_swiglu(gate: Array, up: Array, *, limit: float, slope: float) -> Array:
    """SwiGLU of clamped inputs, with 1 added to the linear one, as in gpt-oss.

    y = (u + 1) g sigmoid(a g),  g = min(gate, c),  u = max(-c, min(up, c))

    The 1 lets the gate pass its own value on where `up` is 0. The limit c keeps the product small
    enough for low precision.

    Args:
        gate, up: (..., d_ff), two linear functions of the same token. limit: c. slope: a. Returns
        (..., d_ff).
    Gradient:
        `clamped_swiglu_grad`.
    Fails:
        A unit beyond the limit gets no gradient.
    Raises:
        MathsError: the shapes differ, or a number is not above 0.
    Source:
        OpenAI 2025, "gpt-oss-120b & gpt-oss-20b Model Card", section 2.2, and its released code.
    Example:
        clamped_swiglu(array([-2.0, 0.0, 9.0]), array([1.0, 1.0, -9.0]), limit=7.0, slope=1.702)
    """
    g, u = _clamped(gate, up, limit)
    return (u + 1) * g * sigmoid(slope * g)


@equation(clamped_swiglu, grad="...")
def clamped_swiglu_grad(
    gate: Array, up: Array, grad: Array, *, limit: float, slope: float
) -> tuple[Array, Array]:
    """The gradients that reach gate and up when `grad` reaches `clamped_swiglu`.

    dgate = d (u + 1) (s + a g s (1 - s)) where gate <= c,  dup = d g s where |up| <= c;
    s = sigmoid(a g), d = grad

    Args:
        As `clamped_swiglu`. grad: like gate. Returns dgate, dup.
    """
    xp = namespace(gate, up, grad)
    g, u = _clamped(gate, up, limit)
    s, zeros = sigmoid(slope * g), xp.zeros_like(grad)
    of_gate = grad * (u + 1) * (s + slope * g * s * (1 - s))
    return (
        xp.where(gate <= limit, of_gate, zeros),
        xp.where(xp.abs(up) <= limit, grad * g * s, zeros),
    )


def _clamped(gate: Array, up: Array, limit: float) -> tuple[Array, Array]:
    xp = namespace(gate, up)
    top = xp.full_like(gate, limit)
    return xp.minimum(gate, top), xp.maximum(xp.minimum(up, top), -top)


@equation(gate="...", up="...")
def geglu(gate: Array, up: Array) -> Array:
    """One linear function of a token, multiplied by the GELU of another, its gate.

    y = gelu(gate) * up

    Args:
        gate, up: (..., d_ff), two linear functions of the same token. Returns (..., d_ff).
    Gradient:
        `geglu_grad`.
    Raises:
        MathsError: the shapes differ.
    Source:
        Shazeer 2020, "GLU Variants Improve Transformer", eq. 5 (x W -> gate, x V -> up).
    Example:
        geglu(array([-2.0, 0.0, 3.0]), array([1.0, 1.0, 2.0]))
    """
    return gelu(gate) * up


@equation(geglu, grad="...")
def geglu_grad(gate: Array, up: Array, grad: Array) -> tuple[Array, Array]:
    """The gradients that reach gate and up when `grad` reaches `geglu`.

    dgate = g up gelu'(gate),  dup = g gelu(gate)

    Args:
        gate, up, grad: (..., d_ff). Returns dgate, dup.
    """
    return gelu_grad(gate, grad * up), grad * gelu(gate)
