"""KL as a loss on logits, in both directions, and estimates of KL from samples."""

from __future__ import annotations

import math

from pellucid.maths.arrays import Array, namespace, times
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import POSITIVE, masked, scores
from pellucid.maths.softmax import log_softmax, softmax


@equation(logits=scores("... classes"), target_logits=scores("... classes"), temperature=POSITIVE)
def forward_kl(logits: Array, target_logits: Array, *, temperature: float = 1.0) -> Array:
    """KL(p || q) from a target p to a model q: q must cover every class that p covers.

    sum_i p_i (log p_i - log q_i),  p = softmax(target / T),  q = softmax(logits / T)

    Args:
        logits: (..., classes), of the model. target_logits: like logits. Returns (...).
        temperature: T, above 0, for both.
    Units:
        Nats.
    Gradient:
        `forward_kl_grad`.
    Fails:
        A model with one mode spreads over both modes of the target and over the region between.
    Raises:
        MathsError: the shapes differ, or the temperature is not above 0.
    Source:
        Hinton, Vinyals and Dean 2015, "Distilling the Knowledge in a Neural Network", section 2.1.
    See also:
        `reverse_kl`, `kl_divergence`.
    Example:
        forward_kl(array([0.0, 1.0, 2.0]), array([2.0, 1.0, 0.0]))
    """
    return _kl(target_logits, logits, temperature)


@equation(forward_kl)
def forward_kl_grad(logits: Array, target_logits: Array, *, temperature: float = 1.0) -> Array:
    """The gradient of `forward_kl` by the model's logits: prediction minus target.

    dL/dlogits = (q - p) / T

    Args:
        As `forward_kl`. Returns like logits.
    """
    q = softmax(logits, temperature=temperature)
    return (q - softmax(target_logits, temperature=temperature)) / temperature


@equation(forward_kl)
def reverse_kl(logits: Array, target_logits: Array, *, temperature: float = 1.0) -> Array:
    """KL(q || p) from a model q to a target p: q must avoid every class that p avoids.

    sum_i q_i (log q_i - log p_i),  p = softmax(target / T),  q = softmax(logits / T)

    Args:
        logits: (..., classes), of the model. target_logits: like logits. Returns (...).
        temperature: T, above 0, for both.
    Units:
        Nats.
    Gradient:
        `reverse_kl_grad`.
    Fails:
        A model with one mode takes one of the target's modes and ignores the other. If the target
        gives probability 0 to a class that the model does not, it is infinite and has no gradient.
    Raises:
        MathsError: the shapes differ, or the temperature is not above 0.
    Source:
        Minka 2005, "Divergence measures and message passing", section 2.
    See also:
        `forward_kl`, `kl_divergence`.
    Example:
        reverse_kl(array([0.0, 1.0, 2.0]), array([2.0, 1.0, 0.0]))
    """
    return _kl(logits, target_logits, temperature)


@equation(forward_kl)
def reverse_kl_grad(logits: Array, target_logits: Array, *, temperature: float = 1.0) -> Array:
    """The gradient of `reverse_kl` by the model's logits.

    dL/dlogits_i = q_i (log q_i - log p_i - L) / T

    A step lowers the classes whose term is above the mean L.

    Args:
        As `reverse_kl`. Returns like logits.
    """
    loss = reverse_kl(logits, target_logits, temperature=temperature)[..., None]
    q, difference = _compared(logits, target_logits, temperature)
    return times(q, difference - loss) / temperature


@equation(forward_kl)
def jensen_shannon_of_logits(
    logits: Array, target_logits: Array, *, temperature: float = 1.0
) -> Array:
    """The mean KL divergence of a model q and a target p from their mean, from their logits.

    JS = KL(p || m) / 2 + KL(q || m) / 2,  m = (p + q) / 2,  p, q as in `forward_kl`

    Args:
        logits: (..., classes), of the model. target_logits: like logits. Returns (...).
        temperature: T, above 0, for both.
    Units:
        Nats.
    Gradient:
        `jensen_shannon_of_logits_grad`.
    Fails:
        It is at most log 2: a model that does not overlap with its target gets hardly any gradient.
    Raises:
        MathsError: the shapes differ, or the temperature is not above 0.
    Source:
        Lin 1991, "Divergence Measures Based on the Shannon Entropy", section IV (weights 1/2).
    See also:
        `jensen_shannon`, of probabilities; `forward_kl`, `reverse_kl`.
    Example:
        jensen_shannon_of_logits(array([0.0, 1.0, 2.0]), array([2.0, 1.0, 0.0]))
    """
    p, p_over_m = _against_middle(target_logits, logits, temperature)
    q, q_over_m = _against_middle(logits, target_logits, temperature)
    return namespace(p, q).sum(p * p_over_m + q * q_over_m, axis=-1) / 2


@equation(forward_kl)
def jensen_shannon_of_logits_grad(
    logits: Array, target_logits: Array, *, temperature: float = 1.0
) -> Array:
    """The gradient of `jensen_shannon_of_logits` by the model's logits: terms through m cancel.

    dL/dlogits_i = q_i (g_i - sum_j q_j g_j) / T,  g_i = log(q_i / m_i) / 2

    Args:
        As `jensen_shannon_of_logits`. Returns like logits.
    """
    q, q_over_m = _against_middle(logits, target_logits, temperature)
    mean = namespace(q).sum(q * q_over_m, axis=-1)[..., None]
    return q * (q_over_m - mean) / (2 * temperature)


def _against_middle(x: Array, y: Array, temperature: float) -> tuple[Array, Array]:
    """softmax(x) = p, and log p - log m where p is not 0; m is the mean of both softmaxes."""
    xp = namespace(x, y)
    p, q = softmax(x, temperature=temperature), softmax(y, temperature=temperature)
    nonzero, zero, ones = p > 0, xp.zeros_like(p), xp.ones_like(p)
    log_p = xp.where(nonzero, log_softmax(x, temperature=temperature), zero)
    # the factor 1/2 is subtracted as log 2: half of the smallest float would be 0
    log_m = xp.where(nonzero, xp.log(xp.where(nonzero, p + q, ones)) - math.log(2), zero)
    return p, log_p - log_m


def _compared(x: Array, y: Array, temperature: float) -> tuple[Array, Array]:
    """softmax(x) = p, and log p - log softmax(y) where p is not 0."""
    xp = namespace(x, y)
    p = softmax(x, temperature=temperature)
    zero = xp.zeros_like(p)
    log_p = xp.where(p > 0, log_softmax(x, temperature=temperature), zero)
    return p, log_p - xp.where(p > 0, log_softmax(y, temperature=temperature), zero)


def _kl(x: Array, y: Array, temperature: float) -> Array:
    p, difference = _compared(x, y, temperature)
    return namespace(p).sum(p * difference, axis=-1)


@equation(log_ratio=masked("..."))
def kl_k1(log_ratio: Array) -> Array:
    """The plain estimate of KL(q || p) from a sample: unbiased, noisy, and often negative.

    k1 = -log r,  r = p(x) / q(x),  x sampled from q

    Args:
        log_ratio: log r, (...). Returns (...).
    Units:
        Nats.
    Fails:
        As a loss its mean gradient by q is 0: use it as a reward, or differentiate through the
        sampling.
    Source:
        Schulman 2020, "Approximating KL Divergence".
    See also:
        `kl_k3`, which is unbiased and never negative; `kl_k2`.
    Example:
        kl_k1(array([-0.5, 0.0, 0.5]))
    """
    return -log_ratio


@equation(kl_k1)
def kl_k2(log_ratio: Array) -> Array:
    """An estimate of KL(q || p) from a sample: biased, never negative, good if p is close to q.

    k2 = (log r)^2 / 2,  r = p(x) / q(x),  x sampled from q

    Args:
        log_ratio: log r, (...). Returns (...).
    Units:
        Nats.
    Gradient:
        `kl_k2_grad`.
    Fails:
        The bias is large if p and q are far apart.
    Source:
        Schulman 2020, "Approximating KL Divergence".
    Example:
        kl_k2(array([-0.5, 0.0, 0.5]))
    """
    return log_ratio**2 / 2


@equation(kl_k1, grad="...")
def kl_k2_grad(log_ratio: Array, grad: Array) -> Array:
    """The gradient that reaches log r when `grad` reaches `kl_k2`.

    dk2 / dlog r = log r

    Args:
        log_ratio, grad: (...). Returns (...).
    """
    return grad * log_ratio


@equation(kl_k1)
def kl_k3(log_ratio: Array) -> Array:
    """An estimate of KL(q || p) from a sample, with a control variate: unbiased, never negative.

    k3 = (r - 1) - log r,  r = p(x) / q(x),  x sampled from q

    r - 1 has mean 0 and cancels most of the noise of -log r.

    Args:
        log_ratio: log r, (...). Returns (...).
    Units:
        Nats.
    Gradient:
        `kl_k3_grad`.
    Fails:
        If p is much larger than q, r is huge: one sample can outweigh all others.
    Source:
        Schulman 2020, "Approximating KL Divergence".
    Example:
        kl_k3(array([-0.5, 0.0, 0.5]))
    """
    return _ratio_minus_one(log_ratio) - log_ratio


@equation(kl_k1, grad="...")
def kl_k3_grad(log_ratio: Array, grad: Array) -> Array:
    """The gradient that reaches log r when `grad` reaches `kl_k3`.

    dk3 / dlog r = r - 1

    Args:
        log_ratio, grad: (...). Returns (...).
    """
    return times(grad, _ratio_minus_one(log_ratio))


def _ratio_minus_one(log_ratio: Array) -> Array:
    """exp(x) - 1, accurate for small x, and inf without a warning if it overflows."""
    xp = namespace(log_ratio)
    fits = log_ratio < math.log(float(xp.finfo(log_ratio.dtype).max))
    grown = xp.expm1(xp.where(fits, log_ratio, xp.zeros_like(log_ratio)))
    return xp.where(fits, grown, xp.full_like(grown, xp.inf))
