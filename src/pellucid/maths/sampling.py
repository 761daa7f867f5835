"""Filters on logits before sampling: what is left out gets probability zero.

Comes in: logits. Goes out: logits with -inf where a token may not be drawn. It draws nothing.
"""

from __future__ import annotations

from pellucid.maths.arrays import Array, namespace
from pellucid.maths.softmax import softmax


def keep_top_k(logits: Array, k: int) -> Array:
    """Only the k largest logits of each row stay; ties with the k-th stay too.

    Args:
        logits: (..., classes). Returns the same shape.
    Source:
        Fan, Lewis and Dauphin 2018, "Hierarchical Neural Story Generation", section 5.4.
    """
    xp = namespace(logits)
    if k >= logits.shape[-1]:
        return logits
    threshold = xp.sort(logits, axis=-1)[..., -k : logits.shape[-1] - k + 1]
    return xp.where(logits >= threshold, logits, xp.full_like(logits, -xp.inf))


def keep_top_p(logits: Array, p: float) -> Array:
    """Only the smallest set of tokens whose probabilities reach p stays; at least one does.

    Args:
        logits: (..., classes). Returns the same shape.
    Source:
        Holtzman et al. 2020, "The Curious Case of Neural Text Degeneration", eq. 2.
    """
    xp = namespace(logits)
    order = xp.argsort(logits, axis=-1, descending=True)
    shares = xp.take_along_axis(softmax(logits), order, axis=-1)
    before = xp.cumulative_sum(shares, axis=-1) - shares
    # back to where each token stood: the rank of a token is the argsort of the order
    rank = xp.argsort(order, axis=-1)
    reached = xp.take_along_axis(before, rank, axis=-1)
    return xp.where(reached < p, logits, xp.full_like(logits, -xp.inf))
