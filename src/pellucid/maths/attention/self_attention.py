"""Complete self-attention: without weights, and with projections and several heads."""

from __future__ import annotations

from pellucid.maths.arrays import Array, namespace
from pellucid.maths.attention.attention import attention, attention_grad
from pellucid.maths.door import checks
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import COUNT, mask
from pellucid.maths.softmax import softmax, softmax_grad


@equation(x="... time features")
def simple_attention(x: Array) -> Array:
    """Attention without parameters: the tokens are the queries, the keys and the values.

    softmax(x x^T) x,  without a scale

    Args:
        x: (..., time, features). Returns the same shape.
    Gradient:
        `simple_attention_grad`.
    Fails:
        Every token attends mostly to itself and to long vectors: similar tokens are not always the
        useful ones.
    Raises:
        MathsError: x is not floating, or has fewer than two axes.
    Source:
        Luong, Pham and Manning 2015, "Effective Approaches to Attention-based Neural Machine
        Translation", eq. 8 (dot), with x for both states.
    See also:
        `attention`.
    Example:
        simple_attention(array([[0.3, 0.2, 0.9], [0.1, 0.5, 0.2], [0.6, 0.4, 0.3]]))
    """
    return softmax(x @ namespace(x).matrix_transpose(x)) @ x


@equation(simple_attention, grad="... time features")
def simple_attention_grad(x: Array, grad: Array) -> Array:
    """The gradient that reaches the tokens when `grad` reaches the output: the sum of three paths.

    With shares p, and ds the gradient of softmax for g x^T:
    dx = p^T g  (as values)  +  ds x  (as queries)  +  ds^T x  (as keys)

    Args:
        x, grad: (..., time, features). Returns the same shape.
    """
    xp = namespace(x, grad)
    scores = x @ xp.matrix_transpose(x)
    ds = softmax_grad(scores, grad @ xp.matrix_transpose(x))
    as_values = xp.matrix_transpose(softmax(scores)) @ grad
    return as_values + ds @ x + xp.matrix_transpose(ds) @ x


def _heads_divide(query: Array, value: Array, n_heads: int) -> None:
    for name, matrix in (("query", query), ("value", value)):
        checks.divides(n_heads, **{f"the rows of {name}": matrix.shape[0]})


@equation(
    _heads_divide,
    x="... time d_model",
    context="... keys d_model",
    query="d_queries d_model",
    key="d_queries d_model",
    value="d_values d_model",
    output="d_model d_values",
    n_heads=COUNT,
    mask=mask("... n_heads time keys"),
)
def multi_head_attention(
    x: Array,
    context: Array,
    query: Array,
    key: Array,
    value: Array,
    output: Array,
    *,
    n_heads: int,
    mask: Array | None = None,
) -> Array:
    """Several attentions in parallel, each in a slice of the features, and a matrix to mix them.

    q = x Q^T,  k = c K^T,  v = c V^T;  y = concat over heads of attention(q_h, k_h, v_h), times O^T

    With context = x it is self-attention; with the states of an encoder, cross-attention.

    Args:
        x: (..., time, d_model). context: c, (..., keys, d_model).
        query, key: (n_heads d_head, d_model). value: (n_heads d_v, d_model).
        output: (d_model, n_heads d_v): h d_v d_model parameters. Returns like x.
        n_heads: the number of heads; they take the rows of query, key and value in order.
        mask: truth values that broadcast to (..., heads, time, keys): true where a query sees a
            key.
    Gradient:
        `multi_head_attention_grad`.
    Raises:
        MathsError: a matrix does not fit, or n_heads does not divide its rows.
    Source:
        Vaswani et al. 2017, "Attention Is All You Need", section 3.2.2 (their W are transposed).
    See also:
        `attention`.
    Example:
        multi_head_attention(eye(4), eye(4), eye(4), eye(4), eye(4), eye(4), n_heads=2)
    """
    xp = namespace(x, context)
    q, k, v = (
        _heads(tokens @ xp.matrix_transpose(matrix), n_heads)
        for tokens, matrix in ((x, query), (context, key), (context, value))
    )
    return _join_heads(attention(q, k, v, mask=mask)) @ xp.matrix_transpose(output)


@equation(multi_head_attention, grad="... time d_model")
def multi_head_attention_grad(
    x: Array,
    context: Array,
    query: Array,
    key: Array,
    value: Array,
    output: Array,
    grad: Array,
    *,
    n_heads: int,
    mask: Array | None = None,
) -> tuple[Array, Array, Array, Array, Array, Array]:
    """The gradients that reach tokens, context and the four matrices.

    dO = g^T h,  dh = g O;  dq, dk, dv for each head as in `attention_grad`
    dx = dq Q,  dc = dk K + dv V,  dQ = dq^T x,  dK = dk^T c,  dV = dv^T c, summed over examples

    Here h is the output of all heads, side by side. In self-attention the gradient of x is dx + dc.

    Args:
        As `multi_head_attention`. grad: like x. Returns dx, dcontext, dquery, dkey, dvalue,
        doutput.
    """
    xp = namespace(x, context, grad)
    q, k, v = (
        _heads(tokens @ xp.matrix_transpose(matrix), n_heads)
        for tokens, matrix in ((x, query), (context, key), (context, value))
    )
    joined = _join_heads(attention(q, k, v, mask=mask))
    reaches = attention_grad(q, k, v, _heads(grad @ output, n_heads), mask=mask)
    dq, dk, dv = (_join_heads(gradient) for gradient in reaches)
    return (
        dq @ query,
        dk @ key + dv @ value,
        _of_matrix(dq, x),
        _of_matrix(dk, context),
        _of_matrix(dv, context),
        _of_matrix(grad, joined),
    )


def _heads(x: Array, n_heads: int) -> Array:
    """(..., time, n_heads d) -> (..., n_heads, time, d)."""
    xp = namespace(x)
    cut = xp.reshape(x, (*x.shape[:-1], n_heads, x.shape[-1] // n_heads))
    return xp.moveaxis(cut, -2, -3)


def _join_heads(x: Array) -> Array:
    """(..., n_heads, time, d) -> (..., time, n_heads d)."""
    xp = namespace(x)
    side_by_side = xp.moveaxis(x, -3, -2)
    return xp.reshape(side_by_side, (*side_by_side.shape[:-2], x.shape[-3] * x.shape[-1]))


def _of_matrix(grad: Array, x: Array) -> Array:
    """The gradient that reaches W when `grad` reaches x W^T."""
    xp = namespace(grad, x)
    rows, inputs = (xp.reshape(a, (-1, a.shape[-1])) for a in (grad, x))
    return xp.matrix_transpose(rows) @ inputs
