"""Which keys a query may see."""

from __future__ import annotations

from pellucid.maths.arrays import Array, namespace
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import COUNT, wholes


@equation(queries=wholes("queries"), keys=wholes("keys"), window=COUNT)
def causal_mask(queries: Array, keys: Array, *, window: int | None = None) -> Array:
    """A query sees its own place and earlier ones; with a window only the last few of them.

    m_ij = 1 where k_j <= q_i, and with a window w where also k_j > q_i - w

    A token's own place is always visible.

    Hidden scores become -inf before the softmax, so their weight is exactly 0 and the others still
    sum to one. A stack of L layers with a window sees L (w - 1) places back.

    Args:
        queries: places, (queries,). keys: places, (keys,). window: w, with the query's own place.
        Returns truth values, (queries, keys).
    Fails:
        A mask that is off by one lets a token see its own answer.
    Raises:
        MathsError: the places are not whole numbers, or the window is not at least 1.
    Source:
        Vaswani et al. 2017, "Attention Is All You Need", section 3.2.3; Beltagy, Peters and Cohan
        2020, "Longformer: The Long-Document Transformer", section 3.1 (windows).
    See also:
        `attention`.
    Example:
        causal_mask(arange(4), arange(4))
        causal_mask(arange(4), arange(4), window=2)
    """
    distance = queries[:, None] - keys[None, :]
    visible = distance >= 0
    if window is None:
        return visible
    return namespace(queries).logical_and(visible, distance < window)
