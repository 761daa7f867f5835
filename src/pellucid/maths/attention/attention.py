"""Attention: each query takes a mean of the values, weighted by how well it matches their keys."""

from __future__ import annotations

import math

from pellucid.maths.arrays import Array, namespace
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import POSITIVE, extended, mask, masked
from pellucid.maths.softmax import softmax, softmax_grad


@equation(x=extended("..."), cap=POSITIVE)
def soft_cap(x: Array, *, cap: float) -> Array:
    """Scores mapped smoothly into (-cap, cap); small scores hardly change.

    y = cap tanh(x / cap)

    Args:
        x: (...). Returns (...).
    Gradient:
        `soft_cap_grad`.
    Fails:
        Far above the cap the gradient vanishes, so such scores stay there.
    Source:
        Gemma Team 2024, "Gemma 2: Improving Open Language Models at a Practical Size", section 2.
    Example:
        soft_cap(array([-100.0, 1.0, 10.0, 100.0]), cap=10.0)
    """
    return cap * namespace(x).tanh(x / cap)


@equation(soft_cap, grad="...")
def soft_cap_grad(x: Array, grad: Array, *, cap: float) -> Array:
    """The gradient that reaches x when `grad` reaches its soft cap.

    dy/dx = 1 - tanh(x / cap)^2

    Args:
        x: (...). grad: (...). Returns (...).
    """
    return grad * (1 - namespace(x, grad).tanh(x / cap) ** 2)


def _scores(q: Array, k: Array, mask: Array | None, bias: Array | None, cap: float | None) -> Array:
    """The argument of softmax, without the sink."""
    xp = namespace(q, k)
    scores = q @ xp.matrix_transpose(k) / math.sqrt(q.shape[-1])
    if cap is not None:
        scores = soft_cap(scores, cap=cap)
    if bias is not None:
        scores = scores + bias
    if mask is None:
        return scores
    return xp.where(mask, scores, xp.full_like(scores, -xp.inf))


def _with_sink(scores: Array, sink: Array | None) -> Array:
    """One more column, the same for every query."""
    if sink is None:
        return scores
    xp = namespace(scores, sink)
    column = xp.broadcast_to(sink[..., None, None], (*scores.shape[:-1], 1))
    return xp.concat((scores, column), axis=-1)


@equation(
    q="... queries d_head",
    k="... keys d_head",
    mask=mask("... queries keys"),
    bias=masked("... queries keys", broadcasts=True),
    cap=POSITIVE,
    sink=masked("...", broadcasts=True),
)
def attention_weights(
    q: Array,
    k: Array,
    *,
    mask: Array | None = None,
    bias: Array | None = None,
    cap: float | None = None,
    sink: Array | None = None,
) -> Array:
    """The share that each query gives to each key.

    softmax(soft_cap(q k^T / sqrt(d_head)) + bias, -inf where masked)

    The shares of a query sum to one. With a sink they sum to less, because the sink takes a share.
    If the mask hides every key, they are all zero.

    Args:
        As `attention`. Returns (..., queries, keys).
    Fails:
        It needs queries times keys numbers: 268 MB per head for 8192 tokens in float32.
    Source:
        Vaswani et al. 2017, "Attention Is All You Need", eq. 1.
    Example:
        attention_weights(eye(3), eye(3))
        attention_weights(eye(3), eye(3), mask=tril(ones((3, 3))) > 0)
    """
    weights = softmax(_with_sink(_scores(q, k, mask, bias, cap), sink))
    return weights[..., : k.shape[-2]]


@equation(attention_weights, v="... keys d_v")
def attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    mask: Array | None = None,
    bias: Array | None = None,
    cap: float | None = None,
    sink: Array | None = None,
) -> Array:
    """Each query's mean of the values, weighted by its shares.

    softmax(soft_cap(q k^T / sqrt(d_head)) + bias, -inf where masked) v

    A query that sees no key gets zero, and no gradient passes through it.

    Args:
        q: (..., queries, d_head). k: (..., keys, d_head). v: (..., keys, d_v), all with the same
            leading axes. Returns (..., queries, d_v). For another scale of the scores, scale q.
        mask: truth values that broadcast to (..., queries, keys): true where a query sees a key.
        bias: numbers that broadcast to (..., queries, keys): added after the cap.
        cap: the bound of `soft_cap`; None for no cap.
        sink: numbers that broadcast to the leading axes, such as (heads,): the score of one more
            key, whose value is zero.
    Gradient:
        `attention_grad`.
    Fails:
        Large scores, from a missing scale or large weights, saturate the softmax: one share is 1,
        and no gradient reaches queries and keys.
    Raises:
        MathsError: a shape or a dtype does not fit, or the cap is not above 0.
    Source:
        Vaswani et al. 2017, "Attention Is All You Need", eq. 1; Gemma Team 2024, "Gemma 2",
        section 2 (cap); OpenAI 2025, "gpt-oss-120b and gpt-oss-20b Model Card" (sink).
    Example:
        attention(eye(2), eye(2), array([[1.0, 2.0], [3.0, 4.0]]))
        attention(eye(2), eye(2), array([[1.0, 2.0], [3.0, 4.0]]), mask=tril(ones((2, 2))) > 0)
    """
    return attention_weights(q, k, mask=mask, bias=bias, cap=cap, sink=sink) @ v


@equation(attention, grad="... queries d_v")
def attention_grad(
    q: Array,
    k: Array,
    v: Array,
    grad: Array,
    *,
    mask: Array | None = None,
    bias: Array | None = None,
    cap: float | None = None,
    sink: Array | None = None,
) -> tuple[Array, Array, Array]:
    """The gradients that reach queries, keys and values when `grad` reaches the output.

    With shares p and scores s before the cap:
    dv = p^T g,  dp = g v^T,  ds = (softmax's gradient for dp) (1 - tanh(s / cap)^2)
    dq = ds k / sqrt(d_head),  dk = ds^T q / sqrt(d_head)

    The value of the sink is the constant zero, so it has no gradient.

    Args:
        As `attention`. grad: (..., queries, d_v). Returns dq, dk, dv.
    """
    xp = namespace(q, k, v, grad)
    n_keys, root = k.shape[-2], math.sqrt(q.shape[-1])
    scores = _with_sink(_scores(q, k, mask, bias, cap), sink)
    reaches_shares = grad @ xp.matrix_transpose(v)
    if sink is not None:
        reaches_shares = _with_sink(reaches_shares, xp.zeros_like(sink))
    ds = softmax_grad(scores, reaches_shares)[..., :n_keys]
    if cap is not None:
        ds = soft_cap_grad(q @ xp.matrix_transpose(k) / root, ds, cap=cap)
    dv = xp.matrix_transpose(softmax(scores)[..., :n_keys]) @ grad
    return ds @ k / root, xp.matrix_transpose(ds) @ q / root, dv
