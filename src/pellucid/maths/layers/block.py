"""A whole block of a transformer: attention and feed-forward, each with a norm and a residual."""

from __future__ import annotations

from collections.abc import Callable

from pellucid.errors import MathsError
from pellucid.maths.activations import gelu, gelu_grad
from pellucid.maths.arrays import Array, device_of, namespace
from pellucid.maths.attention.masks import causal_mask
from pellucid.maths.attention.self_attention import (
    multi_head_attention,
    multi_head_attention_grad,
)
from pellucid.maths.door import checks
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import COUNT, NOT_NEGATIVE, Words
from pellucid.maths.layers.lora import outer_sum
from pellucid.maths.norms import rms_norm, rms_norm_grad

#: A layer, and the gradients that reach its input and its matrices.
_Layer = tuple[Callable[[Array], Array], Callable[[Array, Array], tuple[Array, ...]]]


def _two_gains_and_whole_heads(gains: Array, query: Array, value: Array, n_heads: int) -> None:
    if gains.shape[0] != 2:
        raise MathsError(f"gains has {gains.shape[0]} rows; it must have 2, one for each norm")
    checks.divides(
        n_heads,
        **{"the rows of query": query.shape[0], "the rows of value": value.shape[0]},
    )


@equation(
    _two_gains_and_whole_heads,
    x="... time d_model",
    gains="norms d_model",
    query="d_queries d_model",
    key="d_queries d_model",
    value="d_values d_model",
    output="d_model d_values",
    up="d_ff d_model",
    down="d_model d_ff",
    n_heads=COUNT,
    norm=Words(("pre", "post")),
    eps=NOT_NEGATIVE,
)
def block(
    x: Array,
    gains: Array,
    query: Array,
    key: Array,
    value: Array,
    output: Array,
    up: Array,
    down: Array,
    *,
    n_heads: int,
    norm: str,
    eps: float,
) -> Array:
    """A causal block: attention moves information between tokens, the feed-forward layer uses it.

    pre:   h = x + attention(norm(x)),  y = h + W_2 gelu(W_1 norm(h))
    post:  h = norm(x + attention(x)),  y = norm(h + W_2 gelu(W_1 h))

    Pre-norm leaves a path from y to x without any function: dy/dx = I + ... In post-norm every
    gradient passes both norms. The norms are `rms_norm`, each with a gain.

    Args:
        x: (..., time, d_model). gains: of the two norms, (2, d_model).
        query, key, value, output: as in `multi_head_attention`.
        up: W_1, (d_ff, d_model). down: W_2, (d_model, d_ff). Returns like x.
        n_heads: the number of heads. norm: "pre" or "post". eps: of both norms.
    Gradient:
        `block_grad`.
    Fails:
        The variance of a stack of pre-norm blocks grows with the depth. Deep post-norm stacks need
        a warm-up of the learning rate.
    Raises:
        MathsError: a shape does not fit, or n_heads does not divide the rows of the matrices.
    Source:
        Vaswani et al. 2017, "Attention Is All You Need", section 3.1 (post); Xiong et al. 2020, "On
        Layer Normalization in the Transformer Architecture", table 1 (pre).
    See also:
        `residual_jacobian`, `stream_variance`.
    Example:
        block(eye(2), ones((2, 2)), eye(2), eye(2), eye(2), eye(2), eye(2), eye(2), n_heads=1,
            norm="pre", eps=1e-5)
    """
    first, second = _layers(x, (query, key, value, output), (up, down), n_heads)
    h = _sublayer(x, gains[0, ...], first, norm, eps)
    return _sublayer(h, gains[1, ...], second, norm, eps)


@equation(block, grad="... time d_model")
def block_grad(
    x: Array,
    gains: Array,
    query: Array,
    key: Array,
    value: Array,
    output: Array,
    up: Array,
    down: Array,
    grad: Array,
    *,
    n_heads: int,
    norm: str,
    eps: float,
) -> tuple[Array, Array, Array, Array, Array, Array, Array, Array]:
    """The gradients that reach x, the gains and the six matrices.

    pre:   dh = g + norm'(f'(g)),  dx = dh + norm'(attention'(dh))
    post:  s = norm'(g),  dh = s + f'(s);  t = norm'(dh),  dx = t + attention'(t)

    Here f is the feed-forward layer, and each ' is the gradient of that function by its input.

    Args:
        As `block`. grad: like x. Returns dx, dgains, dquery, dkey, dvalue, doutput, dup, ddown.
    """
    xp = namespace(x, gains, grad)
    first, second = _layers(x, (query, key, value, output), (up, down), n_heads)
    h = _sublayer(x, gains[0, ...], first, norm, eps)
    dh, gain_2, of_second = _sublayer_grad(h, gains[1, ...], second, grad, norm, eps)
    dx, gain_1, of_first = _sublayer_grad(x, gains[0, ...], first, dh, norm, eps)
    query_grad, key_grad, value_grad, output_grad = of_first
    up_grad, down_grad = of_second
    return (
        dx,
        xp.stack((gain_1, gain_2)),
        query_grad,
        key_grad,
        value_grad,
        output_grad,
        up_grad,
        down_grad,
    )


def _layers(
    x: Array, heads: tuple[Array, ...], wide: tuple[Array, Array], n_heads: int
) -> tuple[_Layer, _Layer]:
    """The two layers of a block, without norm and residual."""
    xp = namespace(x)
    places = xp.arange(x.shape[-2], device=device_of(x))
    mask = causal_mask(places, places)
    up, down = wide

    def attend_grad(tokens: Array, grad: Array) -> tuple[Array, ...]:
        query, key, value, output = heads
        dx, dcontext, *matrices = multi_head_attention_grad(
            tokens, tokens, query, key, value, output, grad, n_heads=n_heads, mask=mask
        )
        return dx + dcontext, *matrices

    def feed(tokens: Array) -> Array:
        return gelu(tokens @ xp.matrix_transpose(up)) @ xp.matrix_transpose(down)

    def feed_grad(tokens: Array, grad: Array) -> tuple[Array, ...]:
        before = tokens @ xp.matrix_transpose(up)
        inner = gelu_grad(before, grad @ down)
        return inner @ up, outer_sum(inner, tokens), outer_sum(grad, gelu(before))

    def attend(tokens: Array) -> Array:
        query, key, value, output = heads
        return multi_head_attention(
            tokens, tokens, query, key, value, output, n_heads=n_heads, mask=mask
        )

    return (attend, attend_grad), (feed, feed_grad)


def _sublayer(x: Array, gain: Array, layer: _Layer, norm: str, eps: float) -> Array:
    function, _ = layer
    if norm == "pre":
        return x + function(rms_norm(x, gain, eps=eps))
    return rms_norm(x + function(x), gain, eps=eps)


def _sublayer_grad(
    x: Array, gain: Array, layer: _Layer, grad: Array, norm: str, eps: float
) -> tuple[Array, Array, tuple[Array, ...]]:
    """The gradients of the input, of the gain and of the layer's matrices."""
    function, gradients = layer
    if norm == "pre":
        reaches, *matrices = gradients(rms_norm(x, gain, eps=eps), grad)
        of_norm, of_gain = rms_norm_grad(x, gain, reaches, eps=eps)
        return grad + of_norm, of_gain, tuple(matrices)
    of_sum, of_gain = rms_norm_grad(x + function(x), gain, grad, eps=eps)
    reaches, *matrices = gradients(x, of_sum)
    return of_sum + reaches, of_gain, tuple(matrices)
