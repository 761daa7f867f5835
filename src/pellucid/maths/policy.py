"""Policy gradients: answers that went better than expected become likelier.

Comes in: log P of answers that were drawn, and by how much each was better than expected. Goes out:
losses, to be made small, and their gradients. It does not know how advantages were estimated.
"""

from __future__ import annotations

from pellucid.maths import checks
from pellucid.maths.arrays import Array, namespace


def policy_gradient_loss(log_p: Array, advantage: Array) -> Array:
    """A loss whose gradient is, on average, that of the expected reward downwards.

    L = -A log pi(a)

    Its value means nothing; only its gradient does.

    Args:
        log_p: log pi(a) of what was drawn from pi, (...). advantage: A, (...). Returns (...).
    Gradient:
        `policy_gradient_loss_grad`.
    Fails:
        Drawn from another policy than pi, its gradient is of something else: see
        `clipped_policy_loss`.
    Raises:
        MathsError: the shapes differ.
    Source:
        Williams 1992, "Simple Statistical Gradient-Following Algorithms for Connectionist
        Reinforcement Learning", eq. 11.
    Example:
        policy_gradient_loss(array([-1.0, -2.0]), array([0.5, -0.5]))
    """
    checks.floats(log_p=log_p, advantage=advantage)
    checks.same_shape(log_p=log_p, advantage=advantage)
    return -advantage * log_p


def policy_gradient_loss_grad(log_p: Array, advantage: Array) -> Array:
    """The gradient of `policy_gradient_loss` by log P.

    dL/dlog pi = -A

    Args:
        As `policy_gradient_loss`. Returns like log_p.
    """
    checks.same_shape(log_p=log_p, advantage=advantage)
    return -advantage


def clipped_policy_loss(log_p: Array, old_log_p: Array, advantage: Array, *, clip: float) -> Array:
    """A policy gradient that stops where a draw's probability has changed enough.

    L = -min(r A, clip(r, 1 - eps, 1 + eps) A),  r = pi(a) / pi_old(a)

    Args:
        log_p: log pi(a), (...). old_log_p: under the policy that drew, (...). advantage: A, (...).
            Returns (...).
        clip: eps, above 0.
    Gradient:
        `clipped_policy_loss_grad`.
    Fails:
        Only gain is clipped: where r A is already worse than it was, the loss goes on growing with
        r, without bound.
    Raises:
        MathsError: the shapes differ, or clip is not above 0.
    Source:
        Schulman et al. 2017, "Proximal Policy Optimization Algorithms", eq. 7.
    Example:
        clipped_policy_loss(array([-1.0, -1.0]), array([-2.0, -1.1]), array([1.0, 1.0]), clip=0.2)
    """
    ratio = _ratio(log_p, old_log_p, advantage, clip)
    xp = namespace(log_p)
    low, high = xp.full_like(ratio, 1 - clip), xp.full_like(ratio, 1 + clip)
    kept = xp.where(ratio > high, high, xp.where(ratio < low, low, ratio))
    free, bound = ratio * advantage, kept * advantage
    return -xp.where(bound < free, bound, free)


def clipped_policy_loss_grad(
    log_p: Array, old_log_p: Array, advantage: Array, *, clip: float
) -> Array:
    """The gradient of `clipped_policy_loss` by log P: none where the gain is clipped.

    dL/dlog pi = -r A, and 0 where A > 0 and r > 1 + eps, or A < 0 and r < 1 - eps

    Args:
        As `clipped_policy_loss`. Returns like log_p.
    """
    ratio = _ratio(log_p, old_log_p, advantage, clip)
    xp = namespace(log_p)
    done = ((advantage > 0) & (ratio > 1 + clip)) | ((advantage < 0) & (ratio < 1 - clip))
    return xp.where(done, xp.zeros_like(ratio), -ratio * advantage)


def _ratio(log_p: Array, old_log_p: Array, advantage: Array, clip: float) -> Array:
    checks.above_zero(clip=clip)
    checks.floats(log_p=log_p)
    checks.same_shape(log_p=log_p, old_log_p=old_log_p, advantage=advantage)
    return namespace(log_p).exp(log_p - old_log_p)
