"""Multi-head latent attention: keys and values of all heads from one small vector per token."""

from __future__ import annotations

from pellucid.errors import MathsError
from pellucid.maths.arrays import Array, namespace
from pellucid.maths.attention.attention import attention, attention_grad
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import mask


def _widths_fit(q: Array, shared_keys: Array, key: Array) -> None:
    d_head, d_plain, d_shared = q.shape[-1], key.shape[-2], shared_keys.shape[-1]
    if d_head != d_plain + d_shared:
        raise MathsError(
            f"q has {d_head} features, and the keys have {d_plain} + {d_shared}; these have to be"
            " equal"
        )


@equation(
    _widths_fit,
    q="... n_heads queries d_head",
    latents="... keys d_latent",
    shared_keys="... keys d_shared",
    key="n_heads d_plain d_latent",
    value="n_heads d_v d_latent",
    mask=mask("... n_heads queries keys"),
)
def latent_attention(
    q: Array,
    latents: Array,
    shared_keys: Array,
    key: Array,
    value: Array,
    *,
    mask: Array | None = None,
) -> Array:
    """Attention of several heads whose keys and values are products of one latent per token.

    k_h = [K_h c, r],  v_h = V_h c;  attention(q_h, k_h, v_h)

    What has to be kept of a token is its latent c and the part r of its key that all heads share:
    d_latent + d_shared numbers, however many heads there are. The shared part is the one that
    positions rotate. A product with a latent can move to the query, so no key needs to be formed:
    a . K_h c = (K_h^T a) . c.

    Args:
        q: (..., heads, queries, d_head), rotated, with d_head = d_plain + d_shared.
        latents: c, (..., keys, d_latent). shared_keys: r, (..., keys, d_shared), rotated.
        key: K, (heads, d_plain, d_latent). value: V, (heads, d_v, d_latent).
        mask: truth values that broadcast to (..., heads, queries, keys): true where a query sees a
            key. Returns (..., heads, queries, d_v).
    Gradient:
        `latent_attention_grad`.
    Fails:
        Keys and values have the rank of the latent: a small one makes all heads alike.
    Raises:
        MathsError: a shape does not fit.
    Source:
        DeepSeek-AI 2024, "DeepSeek-V2", eq. 9-11 and 14-18.
    See also:
        `attention`, `rotate`.
    Example:
        latent_attention(ones((1, 2, 3)), eye(2), eye(2), ones((1, 1, 2)), ones((1, 3, 2)))
    """
    k, v = _expand(latents, shared_keys, key, value)
    return attention(q, k, v, mask=mask)


@equation(latent_attention, grad="... n_heads queries d_v")
def latent_attention_grad(
    q: Array,
    latents: Array,
    shared_keys: Array,
    key: Array,
    value: Array,
    grad: Array,
    *,
    mask: Array | None = None,
) -> tuple[Array, Array, Array, Array, Array]:
    """The gradients that reach queries, latents, shared keys and both matrices.

    With dq, dk, dv of each head as in `attention_grad`, and dk = [dp, ds]:
    dc = sum_h (dp_h K_h + dv_h V_h),  dr = sum_h ds_h
    dK_h = dp_h^T c,  dV_h = dv_h^T c, summed over examples

    Args:
        As `latent_attention`. grad: (..., heads, queries, d_v). Returns dq, dlatents,
        dshared_keys, dkey, dvalue.
    """
    xp = namespace(q, latents, shared_keys, key, value, grad)
    k, v = _expand(latents, shared_keys, key, value)
    dq, dk, dv = attention_grad(q, k, v, grad, mask=mask)
    d_plain = key.shape[-2]
    dplain, dshared = dk[..., :d_plain], dk[..., d_plain:]
    dlatents = xp.sum(dplain @ key + dv @ value, axis=-3)
    return (
        dq,
        dlatents,
        xp.sum(dshared, axis=-3),
        _of_matrices(dplain, latents),
        _of_matrices(dv, latents),
    )


def _expand(latents: Array, shared_keys: Array, key: Array, value: Array) -> tuple[Array, Array]:
    """Keys (..., heads, keys, d_head) and values (..., heads, keys, d_v)."""
    xp = namespace(latents, shared_keys, key, value)
    of_heads = latents[..., None, :, :]
    plain = of_heads @ xp.matrix_transpose(key)
    shape = (*plain.shape[:-1], shared_keys.shape[-1])
    shared = xp.broadcast_to(shared_keys[..., None, :, :], shape)
    return xp.concat((plain, shared), axis=-1), of_heads @ xp.matrix_transpose(value)


def _of_matrices(grad: Array, x: Array) -> Array:
    """The gradients (heads, rows, columns) of matrices, from (..., heads, time, rows)."""
    xp = namespace(grad, x)
    products = xp.matrix_transpose(grad) @ x[..., None, :, :]
    return xp.sum(xp.reshape(products, (-1, *products.shape[-3:])), axis=0)
