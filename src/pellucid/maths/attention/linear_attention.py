"""Linear attention: a product of features replaces the softmax, so that a sum holds the past.

(q . k) v summed over keys is q . (the sum of k v^T): a matrix that does not grow with the text. All
forms below give the same numbers; they differ in their state and in the order of their sums. An
extra value of 1 per key gives the normaliser without code of its own.
"""

from __future__ import annotations

from pellucid.errors import MathsError
from pellucid.maths.arrays import Array, namespace
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import COUNT, FLAG, NOT_NEGATIVE, extended, not_negative


@equation(x=extended("..."))
def elu_features(x: Array) -> Array:
    """Positive features: linear above zero, exponential below.

    y = elu(x) + 1 = x + 1 where x > 0, exp(x) where not

    Args:
        x: (...). Returns (...).
    Gradient:
        `elu_features_grad`.
    Source:
        Katharopoulos et al. 2020, "Transformers are RNNs: Fast Autoregressive Transformers with
        Linear Attention", eq. 7.
    Example:
        elu_features(array([-2.0, 0.0, 2.0]))
    """
    xp = namespace(x)
    # the exponential that `where` does not select must not overflow either
    return xp.where(x > 0, x + 1, xp.exp(xp.clip(x, None, 0)))


@equation(elu_features, grad="...")
def elu_features_grad(x: Array, grad: Array) -> Array:
    """The gradient that reaches x when `grad` reaches its features.

    dy/dx = 1 where x > 0, exp(x) where not: min(y, 1)

    Args:
        x: (...). grad: (...). Returns (...).
    """
    return grad * namespace(x, grad).clip(elu_features(x), None, 1)


def _append_ones(v: Array) -> Array:
    """Values with an extra 1 each; the attention's output for it is the normaliser."""
    xp = namespace(v)
    return xp.concat((v, xp.ones_like(v[..., :1])), axis=-1)


def _shares(attended: Array, eps: float) -> Array:
    """The output divided by the normaliser, which is its last column."""
    return attended[..., :-1] / (attended[..., -1:] + eps)


def _outer(a: Array, b: Array) -> Array:
    """a b^T for each token: (..., time, a's width, b's width)."""
    return a[..., :, None] * b[..., None, :]


def _applied(rows: Array, matrices: Array) -> Array:
    """Each token's row times its matrix."""
    return (rows[..., None, :] @ matrices)[..., 0, :]


def _states(k: Array, v: Array, causal: bool) -> Array:
    """The sum of k v^T that each token sees: (..., time or 1, features, d_v)."""
    xp = namespace(k, v)
    if causal:
        return xp.cumulative_sum(_outer(k, v), axis=-3)
    return (xp.matrix_transpose(k) @ v)[..., None, :, :]


def _states_from_behind(k: Array, v: Array, causal: bool) -> Array:
    """The same sum over the tokens that see each token, for gradients."""
    xp = namespace(k, v)
    if not causal:
        return _states(k, v, causal)
    return xp.flip(xp.cumulative_sum(xp.flip(_outer(k, v), axis=-3), axis=-3), axis=-3)


def _equal_times(q: Array, k: Array, causal: bool) -> None:
    if causal and q.shape[-2] != k.shape[-2]:
        raise MathsError(
            f"{q.shape[-2]} queries and {k.shape[-2]} keys; causal attention needs as many of both"
        )


@equation(
    _equal_times,
    q=not_negative("... queries>=0 features"),
    k=not_negative("... keys>=0 features"),
    v="... keys>=0 d_v",
    eps=NOT_NEGATIVE,
    causal=FLAG,
)
def linear_attention(q: Array, k: Array, v: Array, *, eps: float, causal: bool) -> Array:
    """Each query's mean of the values, weighted by products of features.

    o_n = q_n^T S_n / (q_n . z_n + eps),  S_n = sum_m k_m v_m^T,  z_n = sum_m k_m

    The sums are over all keys, or, if causal, over m <= n.

    Args:
        q: (..., queries, features). k: (..., keys, features). v: (..., keys, d_v). Features are
            not negative. Causal: as many keys as queries. Returns (..., queries, d_v).
        eps: keeps the normaliser above zero.
    Gradient:
        `linear_attention_grad`.
    Fails:
        It cannot attend sharply: one sum of d_head x d_v numbers holds the whole past.
    Source:
        Katharopoulos et al. 2020, "Transformers are RNNs", sections 3.2 and 3.3
        (phi(Q), phi(K) -> q, k).
    See also:
        `linear_attention_in_chunks`, `linear_attention_step`.
    Example:
        linear_attention(ones((2, 2)), ones((2, 2)), array([[1.0, 2.0], [3.0, 4.0]]), eps=1e-6,
            causal=True)
    """
    return _shares(_applied(q, _states(k, _append_ones(v), causal)), eps)


@equation(linear_attention, grad="... queries>=0 d_v")
def linear_attention_grad(
    q: Array, k: Array, v: Array, grad: Array, *, eps: float, causal: bool
) -> tuple[Array, Array, Array]:
    """The gradients that reach the features and the values when `grad` reaches the output.

    u_n = (g_n, -g_n . o_n) / a_n                the gradient before the division
    dq_n = (sum_m k_m v'_m^T) u_n                over the keys that n sees
    dk_m = R_m v'_m,  dv'_m = R_m^T k_m,  R_m = sum_n q_n u_n^T      over the queries that see m

    Here a_n = q_n . z_n + eps, and v' = (v, 1) extends each value by a 1.

    Args:
        As `linear_attention`. grad: (..., queries, d_v). Returns dq, dk, dv.
    Source:
        Katharopoulos et al. 2020, "Transformers are RNNs", section 3.3.1, for the numerator; here
        with the gradient of the normaliser too.
    """
    xp = namespace(q, k, v, grad)
    values = _append_ones(v)
    states = _states(k, values, causal)
    attended = _applied(q, states)
    towards = xp.sum(grad * _shares(attended, eps), axis=-1, keepdims=True)
    u = xp.concat((grad, -towards), axis=-1) / (attended[..., -1:] + eps)
    grad_states = _states_from_behind(q, u, causal)
    dq = _applied(u, xp.matrix_transpose(states))
    dk = _applied(values, xp.matrix_transpose(grad_states))
    return dq, dk, _applied(k, grad_states)[..., :-1]


@equation(
    q=not_negative("... time>=0 features"),
    k=not_negative("... time>=0 features"),
    v="... time>=0 d_v",
    eps=NOT_NEGATIVE,
    chunk=COUNT,
)
def linear_attention_in_chunks(q: Array, k: Array, v: Array, *, eps: float, chunk: int) -> Array:
    """Causal linear attention chunk by chunk: matrix products, and one state.

    Within a chunk, with the state S of all chunks before it and M the causal mask:
    o = (q S + ((q k^T) M) v) / normaliser,  then S <- S + k^T v

    Args:
        As `linear_attention`, causal. chunk: tokens per chunk. Returns (..., time, d_v).
    Source:
        Sun et al. 2023, "Retentive Network: A Successor to Transformer for Large Language Models",
        eq. 7 (the chunkwise form, here without decay).
    Example:
        linear_attention_in_chunks(ones((3, 2)), ones((3, 2)), eye(3), eps=1e-6, chunk=2)
    """
    xp = namespace(q, k, v)
    values = _append_ones(v)
    state: Array | None = None
    attended: list[Array] = []
    for start in range(0, q.shape[-2], chunk):
        span = slice(start, min(start + chunk, q.shape[-2]))
        chunk_q, chunk_k, chunk_v = q[..., span, :], k[..., span, :], values[..., span, :]
        chunk_sums = xp.tril(chunk_q @ xp.matrix_transpose(chunk_k)) @ chunk_v
        attended.append(chunk_sums if state is None else chunk_sums + chunk_q @ state)
        added = xp.matrix_transpose(chunk_k) @ chunk_v
        state = added if state is None else state + added
    return _shares(xp.concat(attended, axis=-2), eps) if attended else v


@equation(
    state="... features d_v",
    normaliser="... features",
    q=not_negative("... features"),
    k=not_negative("... features"),
    v="... d_v",
    eps=NOT_NEGATIVE,
)
def linear_attention_step(
    state: Array, normaliser: Array, q: Array, k: Array, v: Array, *, eps: float
) -> tuple[Array, Array, Array]:
    """Causal linear attention as a recurrent network: one token, and a state of fixed size.

    S <- S + k v^T,  z <- z + k,  o = q^T S / (q . z + eps)

    Args:
        state: (..., features, d_v), zero before the first token. normaliser: (..., features).
        q, k: (..., features). v: (..., d_v). Returns the state, the normaliser, and o: (..., d_v).
    Source:
        Katharopoulos et al. 2020, "Transformers are RNNs", section 3.4 (s, z -> state, normaliser).
    Example:
        linear_attention_step(zeros((2, 2)), zeros(2), ones(2), ones(2), array([1.0, 2.0]),
            eps=1e-6)
    """
    xp = namespace(state, q)
    state, normaliser = state + _outer(k, v), normaliser + k
    total = xp.sum(q * normaliser, axis=-1, keepdims=True) + eps
    return state, normaliser, _applied(q, state) / total
