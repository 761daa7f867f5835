"""Changes to logits before sampling: filters that remove tokens, and a penalty on repetition.

Nothing here draws a random number.
"""

from __future__ import annotations

import math

from pellucid.maths.arrays import Array, device_of, namespace
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import (
    COUNT,
    FRACTION,
    POSITIVE,
    SHARE,
    distribution,
    masked,
    truths,
)
from pellucid.maths.softmax import softmax


@equation(logits=masked("... classes"), k=COUNT)
def keep_top_k(logits: Array, k: int) -> Array:
    """Keep only the k largest logits of each row, and ties with the k-th.

    y_i = x_i where x_i >= the k-th largest, -inf elsewhere

    Args:
        logits: (..., classes). Returns the same shape.
    Fails:
        k is the same whether one token is certain or a hundred are equally likely.
    Raises:
        MathsError: a number is out of its range, or a dtype does not fit.
    Source:
        Fan, Lewis and Dauphin 2018, "Hierarchical Neural Story Generation", section 5.4.
    Example:
        keep_top_k(array([2.0, 1.0, -1.0]), 2)
    """
    xp = namespace(logits)
    if k >= logits.shape[-1]:
        return logits
    threshold = xp.sort(logits, axis=-1)[..., -k : logits.shape[-1] - k + 1]
    return xp.where(logits >= threshold, logits, xp.full_like(logits, -xp.inf))


@equation(logits=masked("... classes"), p=FRACTION)
def keep_top_p(logits: Array, p: float) -> Array:
    """Keep only the smallest set of tokens whose probabilities sum to at least p.

    y_i = x_i where the sum of all shares larger than p_i is below p, -inf elsewhere

    The likeliest token stays for every p, even for 0.

    Args:
        logits: (..., classes). Returns the same shape.
        p: in [0, 1].
    Fails:
        If the model is unsure, thousands of unlikely tokens are needed to reach p, and all stay.
    Raises:
        MathsError: a number is out of its range, or a dtype does not fit.
    Source:
        Holtzman et al. 2020, "The Curious Case of Neural Text Degeneration", eq. 2.
    Example:
        softmax(array([2.0, 1.0, -1.0]))
        keep_top_p(array([2.0, 1.0, -1.0]), 0.8)
    """
    xp = namespace(logits)
    order = xp.argsort(logits, axis=-1, descending=True)
    shares = xp.take_along_axis(softmax(logits), order, axis=-1)
    mass_before = xp.cumulative_sum(shares, axis=-1) - shares
    # back to the order of the vocabulary: the rank of a token is the argsort of the order
    rank = xp.argsort(order, axis=-1)
    mass_at_token = xp.take_along_axis(mass_before, rank, axis=-1)
    return xp.where((mass_at_token < p) | (rank == 0), logits, xp.full_like(logits, -xp.inf))


@equation(logits=masked("... classes"), p=SHARE)
def keep_min_p(logits: Array, p: float) -> Array:
    """Keep only tokens that are at least p times as likely as the likeliest.

    softmax(x)_i >= p max_j softmax(x)_j,  that is  x_i >= max_j x_j + log p

    Args:
        logits: (..., classes). Returns the same shape.
        p: in (0, 1].
    Raises:
        MathsError: a number is out of its range, or a dtype does not fit.
    Source:
        Nguyen et al. 2024, "Turning Up the Heat: Min-p Sampling for Creative and Coherent LLM
        Outputs", section 3.
    Example:
        keep_min_p(array([2.0, 1.0, -1.0]), 0.3)
    """
    xp = namespace(logits)
    threshold = xp.max(logits, axis=-1, keepdims=True) + math.log(p)
    return xp.where(logits >= threshold, logits, xp.full_like(logits, -xp.inf))


@equation(logits=masked("... classes"), present=truths("... classes"), penalty=POSITIVE)
def repetition_penalty(logits: Array, present: Array, penalty: float) -> Array:
    """Make tokens that are already in the text less likely.

    y_i = x_i / penalty where x_i > 0, x_i penalty elsewhere, for i in present

    The paper always divides, which would make a token with a negative logit more likely.

    Args:
        logits: (..., classes). Returns the same shape.
        present: (..., classes), truth values.
        penalty: above 0; 1 changes nothing, and a number below 1 rewards repetition.
    Raises:
        MathsError: a number is out of its range, or a dtype does not fit.
    Source:
        Keskar et al. 2019, "CTRL", section 4.1.
    Example:
        repetition_penalty(array([2.0, -1.0, 1.0]), array([True, True, False]), 1.3)
    """
    xp = namespace(logits, present)
    lowered = xp.where(logits > 0, logits / penalty, logits * penalty)
    return xp.where(present, lowered, logits)


@equation(logits=masked("... classes"))
def argmax_share(logits: Array) -> Array:
    """All of the probability on the largest logit: the limit of a softmax as T goes to 0.

    y_i = 1 if i = argmax x, else 0;  argmax x is the place of max x, of equal ones the first

    Greedy decoding takes it. Where the largest logit is unique a small move changes nothing, so the
    gradient is 0: nothing can be learnt through an argmax. A softmax has a gradient.

    Args:
        logits: (..., classes). Returns the same shape.
    Fails:
        Of a row that is masked completely it gives the first class.
    Source:
        Goodfellow, Bengio and Courville 2016, "Deep Learning", section 6.2.2.3.
    See also:
        `softmax`, `logsumexp`.
    Example:
        argmax_share(array([2.0, 1.0, -1.0]))
        softmax(array([2.0, 1.0, -1.0]), temperature=0.05)
    """
    xp = namespace(logits)
    place = xp.argmax(logits, axis=-1, keepdims=True)
    classes = xp.arange(logits.shape[-1], device=device_of(logits))
    return xp.astype(classes == place, logits.dtype)


@equation(target=distribution("... classes"), draft=distribution("... classes"))
def speculative_acceptance(target: Array, draft: Array) -> tuple[Array, Array]:
    """With which probability a drafted token is kept, and from what to draw if it is not.

    a_i = min(1, p_i / q_i),  r_i = max(0, p_i - q_i) / sum_j max(0, p_j - q_j)

    Token i comes with q_i a_i + (1 - sum_j q_j a_j) r_i = p_i: exactly the target's distribution.
    A draft is kept with the probability sum_i min(p_i, q_i), one minus the total variation.

    Args:
        target: p, of the large model, (..., classes). draft: q, of the small one. Returns a and r,
            like target; r is p where the two are equal.
    Raises:
        MathsError: the shapes differ, or a row is no distribution.
    Source:
        Leviathan, Kalman and Matias 2023, "Fast Inference from Transformers via Speculative
        Decoding", section 2.3; Chen et al. 2023, "Accelerating Large Language Model Decoding with
        Speculative Sampling", theorem 1.
    Example:
        speculative_acceptance(array([0.5, 0.3, 0.2]), array([0.2, 0.2, 0.6]))
    """
    xp = namespace(target, draft)
    left = xp.where(target > draft, target - draft, xp.zeros_like(target))
    total = xp.sum(left, axis=-1, keepdims=True)
    differs = total > 0
    residual = xp.where(differs, left / xp.where(differs, total, xp.ones_like(total)), target)
    divisor = xp.where(draft > target, draft, xp.ones_like(draft))
    return xp.where(draft > target, target / divisor, xp.ones_like(target)), residual
