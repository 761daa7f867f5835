"""Policy gradients: answers with a higher reward than expected become likelier.

Also two estimates of the advantage (how much better than expected) in a group of answers, and the
step that a trust region allows.
"""

from __future__ import annotations

from pellucid.maths.arrays import Array, namespace
from pellucid.maths.door import checks
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import NOT_NEGATIVE, POSITIVE


def _positive_definite_fisher(fisher: Array, grad: Array) -> None:
    checks.positive_definite(fisher=fisher)
    squares = namespace(grad).sum(grad**2, axis=-1)
    checks.not_zero(**{"the length of the gradient": squares})


@equation(log_p="...", advantage="...")
def policy_gradient_loss(log_p: Array, advantage: Array) -> Array:
    """A loss whose mean gradient is the negative gradient of the expected reward.

    L = -A log pi(a)

    Only its gradient has a meaning, not its value.

    Args:
        log_p: log pi(a) of answers sampled from pi, (...). advantage: A, (...). Returns (...).
    Gradient:
        `policy_gradient_loss_grad`.
    Fails:
        If the answers were sampled from another policy, the gradient is biased: see
        `clipped_policy_loss`.
    Raises:
        MathsError: the shapes differ.
    Source:
        Williams 1992, "Simple Statistical Gradient-Following Algorithms for Connectionist
        Reinforcement Learning", eq. 11.
    Example:
        policy_gradient_loss(array([-1.0, -2.0]), array([0.5, -0.5]))
    """
    return -advantage * log_p


@equation(policy_gradient_loss)
def policy_gradient_loss_grad(log_p: Array, advantage: Array) -> Array:
    """The gradient of `policy_gradient_loss` by log P.

    dL/dlog pi = -A

    Args:
        As `policy_gradient_loss`. Returns like log_p.
    """
    return -advantage


@equation(log_p="...", old_log_p="...", advantage="...", clip=POSITIVE)
def clipped_policy_loss(log_p: Array, old_log_p: Array, advantage: Array, *, clip: float) -> Array:
    """A policy gradient that stops once an answer's probability has changed enough.

    L = -min(r A, clip(r, 1 - eps, 1 + eps) A),  r = pi(a) / pi_old(a)

    Args:
        log_p: log pi(a), (...). old_log_p: log pi_old(a) of the policy that sampled the answers,
            (...). advantage: A, (...). Returns (...).
        clip: eps, above 0.
    Gradient:
        `clipped_policy_loss_grad`.
    Fails:
        Only improvements are clipped: for A < 0 the loss grows with r without bound.
    Raises:
        MathsError: the shapes differ, or clip is not above 0.
    Source:
        Schulman et al. 2017, "Proximal Policy Optimization Algorithms", eq. 7.
    Example:
        clipped_policy_loss(array([-1.0, -1.0]), array([-2.0, -1.1]), array([1.0, 1.0]), clip=0.2)
    """
    ratio = _ratio(log_p, old_log_p)
    xp = namespace(log_p)
    low, high = xp.full_like(ratio, 1 - clip), xp.full_like(ratio, 1 + clip)
    clipped = xp.where(ratio > high, high, xp.where(ratio < low, low, ratio))
    free, bound = ratio * advantage, clipped * advantage
    return -xp.where(bound < free, bound, free)


@equation(clipped_policy_loss)
def clipped_policy_loss_grad(
    log_p: Array, old_log_p: Array, advantage: Array, *, clip: float
) -> Array:
    """The gradient of `clipped_policy_loss` by log P: 0 where the ratio is clipped.

    dL/dlog pi = -r A, and 0 where A > 0 and r > 1 + eps, or A < 0 and r < 1 - eps

    Args:
        As `clipped_policy_loss`. Returns like log_p.
    """
    ratio = _ratio(log_p, old_log_p)
    xp = namespace(log_p)
    is_clipped = ((advantage > 0) & (ratio > 1 + clip)) | ((advantage < 0) & (ratio < 1 - clip))
    return xp.where(is_clipped, xp.zeros_like(ratio), -ratio * advantage)


@equation(rewards="... samples>=2")
def rloo_advantages(rewards: Array) -> Array:
    """Each answer's reward minus the mean reward of the other answers to its prompt.

    A_i = r_i - sum_(j != i) r_j / (n - 1) = (r_i - mean) n / (n - 1)

    The other answers do not depend on answer i, so the policy gradient stays unbiased.

    Args:
        rewards: (..., samples), at least two. Returns like it.
    Units:
        The reward's units.
    Raises:
        MathsError: the rewards are not floating, or there is only one sample.
    Source:
        Kool, van Hoof and Welling 2019, "Buy 4 REINFORCE Samples, Get a Baseline for Free!", eq. 8;
        Ahmadian et al. 2024, "Back to Basics: Revisiting REINFORCE Style Optimization for Learning
        from Human Feedback in LLMs" (RLOO).
    See also:
        `policy_gradient_loss`, `grpo_advantages`.
    Example:
        rloo_advantages(array([1.0, 0.0, 0.0, 0.0]))
    """
    n = rewards.shape[-1]
    return (rewards - namespace(rewards).mean(rewards, axis=-1)[..., None]) * (n / (n - 1))


@equation(rewards="... samples>=2", eps=NOT_NEGATIVE)
def grpo_advantages(rewards: Array, *, eps: float) -> Array:
    """Each answer's reward minus the mean of all answers to its prompt, in standard deviations.

    A_i = (r_i - mean) / (std + eps),  std with n - 1

    Args:
        rewards: (..., samples), at least two. Returns like it.
        eps: at least 0; with 0, a group of equal rewards raises an error.
    Fails:
        It changes the optimum: if nearly all answers are good, the standard deviation is small, and
        the pull away from the reference grows without bound.
    Raises:
        MathsError: the rewards are not floating, there is only one sample, or eps is negative.
    Source:
        Shao et al. 2024, "DeepSeekMath: Pushing the Limits of Mathematical Reasoning in Open
        Language Models", section 4.1.2.
    See also:
        `rloo_advantages`, which does not divide by the standard deviation.
    Example:
        grpo_advantages(array([1.0, 0.0, 0.0, 0.0]), eps=1e-4)
    """
    xp = namespace(rewards)
    better = rewards - xp.mean(rewards, axis=-1)[..., None]
    return better / (xp.std(rewards, axis=-1, correction=1)[..., None] + eps)


@equation(
    _positive_definite_fisher, grad="... weights", fisher="... weights weights", max_kl=POSITIVE
)
def trust_region_step(grad: Array, fisher: Array, *, max_kl: float) -> Array:
    """The step that raises the expected advantage most, within a KL from the old policy.

    d = F^-1 g,  step = sqrt(2 delta / (g . d)) d

    Near the old policy KL(old || new) is step . F step / 2, with F the Fisher matrix. The step has
    exactly the KL delta: TRPO's constraint. PPO replaces it by a clip of the ratio.

    Args:
        grad: g, of the expected advantage, (..., weights). fisher: F, (..., weights, weights).
            max_kl: delta, above 0. Returns like grad.
    Units:
        max_kl in nats.
    Fails:
        The quadratic is only near: TRPO still checks the true KL and shortens the step.
    Raises:
        MathsError: the Fisher matrix is not positive definite, or the gradient is 0.
    Source:
        Schulman et al. 2015, "Trust Region Policy Optimization", eq. 14 and appendix C; Kakade
        2001, "A Natural Policy Gradient".
    See also:
        `clipped_policy_loss`, `kl_divergence`.
    Example:
        trust_region_step(array([1.0, 1.0]), array([[1.0, 0.0], [0.0, 4.0]]), max_kl=0.01)
    """
    xp = namespace(grad, fisher)
    natural = xp.linalg.solve(fisher, grad[..., None])[..., 0]
    squared_length = xp.sum(grad * natural, axis=-1, keepdims=True)
    return natural * xp.sqrt(2 * max_kl / squared_length)


def _ratio(log_p: Array, old_log_p: Array) -> Array:
    return namespace(log_p).exp(log_p - old_log_p)
