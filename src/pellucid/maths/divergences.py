"""Entropy and divergences: how much there is to know, and how far one distribution is from another.

A probability of 0 costs 0 log 0 = 0.

Gradients by probabilities treat every entry as free. Only their differences within a row mean
something, for probabilities that sum to one move along the simplex.
"""

from __future__ import annotations

from pellucid.maths.arrays import Array, log_of, namespace, ratio, times
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import distribution, not_negative, scores
from pellucid.maths.softmax import log_softmax, softmax


@equation(p=distribution("... classes"))
def entropy(p: Array) -> Array:
    """How surprising a draw from p is on average; divided by log 2, the bits of its best code.

    H(p) = -sum_i p_i log p_i

    Args:
        p: (..., classes). Returns (...).
    Units:
        Nats.
    Gradient:
        `entropy_grad`.
    Raises:
        MathsError: p is not floating, not between 0 and 1, or does not sum to one.
    Source:
        Shannon 1948, "A Mathematical Theory of Communication", section 6.
    See also:
        `entropy_of_logits`, `normalised_entropy`.
    Example:
        entropy(array([0.5, 0.25, 0.25]))
        entropy(array([0.0, 1.0, 0.0]))
    """
    return -namespace(p).sum(times(p, log_of(p)), axis=-1)


@equation(entropy)
def entropy_grad(p: Array) -> Array:
    """The gradient of `entropy` by the probabilities; infinite where one of them is 0.

    dH/dp_i = -(log p_i + 1)

    Args:
        As `entropy`. Returns like p.
    """
    return -(log_of(p) + 1)


@equation(x=scores("... classes"))
def entropy_of_logits(x: Array) -> Array:
    """The entropy of softmax(x), from the logits themselves; 0 where a row is masked throughout.

    H = -sum_i p_i log p_i,  p = softmax(x)

    Args:
        x: (..., classes). Returns (...).
    Units:
        Nats.
    Gradient:
        `entropy_of_logits_grad`.
    Source:
        Shannon 1948, "A Mathematical Theory of Communication", section 6.
    Example:
        entropy_of_logits(array([1.0, 2.0, 3.0]))
    """
    return -namespace(x).sum(times(softmax(x), log_softmax(x)), axis=-1)


@equation(entropy_of_logits)
def entropy_of_logits_grad(x: Array) -> Array:
    """The gradient of `entropy_of_logits` by the logits.

    dH/dx_i = -p_i (log p_i + H)

    Args:
        As `entropy_of_logits`. Returns like x.
    """
    h = entropy_of_logits(x)[..., None]
    return -times(softmax(x), log_softmax(x) + h)


@equation(p=distribution("... classes"), q=distribution("... classes"))
def cross_entropy_between(p: Array, q: Array) -> Array:
    """What draws from p cost when they are coded as if they came from q.

    H(p, q) = -sum_i p_i log q_i = H(p) + KL(p || q)

    Args:
        p, q: (..., classes). Returns (...).
    Units:
        Nats.
    Gradient:
        `cross_entropy_between_grad`.
    Fails:
        Infinite where q gives 0 to what p does not.
    Raises:
        MathsError: p and q have different shapes, or one of them does not sum to one.
    Source:
        Cover and Thomas 2006, "Elements of Information Theory", theorem 5.4.3.
    See also:
        `cross_entropy`, which takes logits and a class.
    Example:
        cross_entropy_between(array([0.0, 0.0, 1.0, 0.0]), array([0.1, 0.2, 0.6, 0.1]))
    """
    return -namespace(p, q).sum(times(p, log_of(q)), axis=-1)


@equation(cross_entropy_between)
def cross_entropy_between_grad(p: Array, q: Array) -> tuple[Array, Array]:
    """The gradients of `cross_entropy_between` by p and q.

    dH/dp_i = -log q_i,  dH/dq_i = -p_i / q_i

    Args:
        As `cross_entropy_between`. Returns dp, dq.
    """
    return -log_of(q), -ratio(p, q)


@equation(p=not_negative("..."), q=not_negative("..."))
def relative_entropy(p: Array, q: Array) -> Array:
    """The terms of which a KL divergence is the sum, one by one; p and q need not sum to one.

    p_i log(p_i / q_i)

    Where p and q are near each other log1p((p - q) / q) is taken, so that their difference is not
    lost; elsewhere log p - log q, so that their ratio does not overflow.

    Args:
        p, q: (...), at least 0. Returns (...).
    Units:
        Nats.
    Gradient:
        `relative_entropy_grad`.
    Raises:
        MathsError: p and q have different shapes, or hold what is negative.
    Source:
        Kullback and Leibler 1951, "On Information and Sufficiency", eq. 2.4.
    Example:
        relative_entropy(array([0.5, 0.5, 0.0]), array([0.25, 0.5, 0.25]))
    """
    return times(p, _log_ratio(p, q))


@equation(relative_entropy, grad="...")
def relative_entropy_grad(p: Array, q: Array, grad: Array) -> tuple[Array, Array]:
    """The gradients that reach p and q when `grad` reaches `relative_entropy`.

    dp = g (log(p / q) + 1),  dq = -g p / q

    Args:
        As `relative_entropy`. grad: like p. Returns dp, dq.
    """
    return times(grad, _log_ratio(p, q) + 1), -times(grad, ratio(p, q))


@equation(cross_entropy_between)
def kl_divergence(p: Array, q: Array) -> Array:
    """The extra nats that draws from p cost when they are coded for q.

    KL(p || q) = sum_i p_i log(p_i / q_i)

    It is never negative, and 0 only where p = q (Gibbs). It is no distance: KL(p || q) is not
    KL(q || p), for the mean is over what p draws.

    Args:
        p, q: (..., classes). Returns (...).
    Units:
        Nats.
    Gradient:
        `kl_divergence_grad`; by logits `forward_kl_grad` and `reverse_kl_grad`.
    Fails:
        Infinite where q gives 0 to what p does not.
    Raises:
        MathsError: p and q have different shapes, or one of them does not sum to one.
    Source:
        Kullback and Leibler 1951, "On Information and Sufficiency", eq. 2.4.
    See also:
        `relative_entropy`, `jensen_shannon`.
    Example:
        kl_divergence(array([0.7, 0.2, 0.1]), array([0.2, 0.3, 0.5]))
        kl_divergence(array([0.2, 0.3, 0.5]), array([0.7, 0.2, 0.1]))
    """
    return namespace(p, q).sum(times(p, _log_ratio(p, q)), axis=-1)


@equation(cross_entropy_between)
def kl_divergence_grad(p: Array, q: Array) -> tuple[Array, Array]:
    """The gradients of `kl_divergence` by p and q.

    dp_i = log(p_i / q_i) + 1,  dq_i = -p_i / q_i

    Args:
        As `kl_divergence`. Returns dp, dq.
    """
    return _log_ratio(p, q) + 1, -ratio(p, q)


@equation(cross_entropy_between)
def jensen_shannon(p: Array, q: Array) -> Array:
    """How far p and q are from the middle between them: symmetric, and at most log 2.

    JS(p, q) = KL(p || m) / 2 + KL(q || m) / 2,  m = (p + q) / 2

    Args:
        p, q: (..., classes). Returns (...).
    Units:
        Nats.
    Gradient:
        `jensen_shannon_grad`.
    Fails:
        Where p and q share nothing it is log 2 however far apart they are.
    Raises:
        MathsError: p and q have different shapes, or one of them does not sum to one.
    Source:
        Lin 1991, "Divergence Measures Based on the Shannon Entropy", section IV (weights 1/2).
    Example:
        jensen_shannon(array([1.0, 0.0]), array([0.0, 1.0]))
        jensen_shannon(array([0.7, 0.2, 0.1]), array([0.2, 0.3, 0.5]))
    """
    m = (p + q) / 2
    terms = times(p, _log_ratio(p, m)) + times(q, _log_ratio(q, m))
    return namespace(p, q).sum(terms, axis=-1) / 2


@equation(cross_entropy_between)
def jensen_shannon_grad(p: Array, q: Array) -> tuple[Array, Array]:
    """The gradients of `jensen_shannon` by p and q: the middle moves, and it cancels.

    dp_i = log(p_i / m_i) / 2,  dq_i = log(q_i / m_i) / 2

    Args:
        As `jensen_shannon`. Returns dp, dq.
    """
    m = (p + q) / 2
    return _log_ratio(p, m) / 2, _log_ratio(q, m) / 2


def _log_ratio(p: Array, q: Array) -> Array:
    """log(p / q), exact also where p is nearly q; -inf where p is 0."""
    xp = namespace(p, q)
    similar = (p > q / 2) & (p < q * 2) & (q > 0)
    change = xp.where(similar, p - q, xp.zeros_like(p)) / xp.where(similar, q, xp.ones_like(q))
    far_p, far_q = xp.where(similar, xp.ones_like(p), p), xp.where(similar, xp.ones_like(q), q)
    log_q = xp.where(far_p == 0, xp.zeros_like(q), log_of(far_q))
    return xp.where(similar, xp.log1p(change), log_of(far_p) - log_q)
