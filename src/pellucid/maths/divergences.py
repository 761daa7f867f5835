"""Entropy and divergences: the uncertainty of a distribution, and how far two of them are apart.

A probability of 0 adds 0 log 0 = 0.

Gradients by probabilities treat every entry as free. Because probabilities sum to one, only the
differences of a gradient within a row have a meaning.
"""

from __future__ import annotations

from pellucid.maths.arrays import Array, log_of, namespace, ratio, times
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import distribution, not_negative, scores
from pellucid.maths.softmax import log_softmax, softmax


@equation(p=distribution("... classes"))
def entropy(p: Array) -> Array:
    """The mean surprise at a sample from p; divided by log 2, the bits of its best code.

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
    """The entropy of softmax(x), computed from the logits; 0 for a row that is all -inf.

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
    """The mean code length of samples from p in the best code for q.

    H(p, q) = -sum_i p_i log q_i = H(p) + KL(p || q)

    Args:
        p, q: (..., classes). Returns (...).
    Units:
        Nats.
    Gradient:
        `cross_entropy_between_grad`.
    Fails:
        It is infinite if q gives probability 0 to a class that p does not.
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
    """The terms of a KL divergence; p and q need not sum to one.

    p_i log(p_i / q_i)

    If p and q are close, it computes log1p((p - q) / q), which keeps their difference; otherwise
    log p - log q, which cannot overflow.

    Args:
        p, q: (...), at least 0. Returns (...).
    Units:
        Nats.
    Gradient:
        `relative_entropy_grad`.
    Raises:
        MathsError: p and q have different shapes, or hold negative numbers.
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
    """The mean extra code length of samples from p when the code is made for q.

    KL(p || q) = sum_i p_i log(p_i / q_i)

    It is never negative, and 0 only if p = q (Gibbs). It is not a distance: KL(p || q) differs from
    KL(q || p), because the mean is over samples from p.

    Args:
        p, q: (..., classes). Returns (...).
    Units:
        Nats.
    Gradient:
        `kl_divergence_grad`; by logits `forward_kl_grad` and `reverse_kl_grad`.
    Fails:
        It is infinite if q gives probability 0 to a class that p does not.
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
    """The mean KL divergence of p and of q from their mean: symmetric, and at most log 2.

    JS(p, q) = KL(p || m) / 2 + KL(q || m) / 2,  m = (p + q) / 2

    Args:
        p, q: (..., classes). Returns (...).
    Units:
        Nats.
    Gradient:
        `jensen_shannon_grad`.
    Fails:
        If p and q do not overlap it is log 2, and its gradient does not show how far apart they
        are.
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
    """The gradients of `jensen_shannon` by p and q: the terms through the mean m cancel.

    dp_i = log(p_i / m_i) / 2,  dq_i = log(q_i / m_i) / 2

    Args:
        As `jensen_shannon`. Returns dp, dq.
    """
    m = (p + q) / 2
    return _log_ratio(p, m) / 2, _log_ratio(q, m) / 2


def _log_ratio(p: Array, q: Array) -> Array:
    """log(p / q), accurate even if p is close to q; -inf where p is 0."""
    xp = namespace(p, q)
    similar = (p > q / 2) & (p < q * 2) & (q > 0)
    change = xp.where(similar, p - q, xp.zeros_like(p)) / xp.where(similar, q, xp.ones_like(q))
    far_p, far_q = xp.where(similar, xp.ones_like(p), p), xp.where(similar, xp.ones_like(q), q)
    log_q = xp.where(far_p == 0, xp.zeros_like(q), log_of(far_q))
    return xp.where(similar, xp.log1p(change), log_of(far_p) - log_q)
