"""Losses on preference pairs: which of two answers is better, against a reference."""

from __future__ import annotations

import math

from pellucid.maths.arrays import Array, log_of, namespace
from pellucid.maths.divergences import kl_divergence, kl_divergence_grad
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import COUNT, FRACTION, POSITIVE, distribution, extended
from pellucid.maths.logistic import sigmoid, softplus
from pellucid.maths.softmax import softmax


@equation(
    chosen="...",
    rejected="...",
    reference_chosen="...",
    reference_rejected="...",
    beta=POSITIVE,
    label_smoothing=FRACTION,
)
def dpo_loss(
    chosen: Array,
    rejected: Array,
    reference_chosen: Array,
    reference_rejected: Array,
    *,
    beta: float,
    label_smoothing: float = 0.0,
) -> Array:
    """The policy's surprise at a preference, from its change relative to a reference.

    z = beta [ (log pi_c - log pi_r) - (log ref_c - log ref_r) ]
    L = -(1 - s) log sigmoid(z) - s log sigmoid(-z)

    It is log 2 if the policy equals its reference. Smoothing s assumes that a share s of the
    preferences is wrong.

    Args:
        chosen, rejected: log P of each answer under the policy, (...). reference_chosen,
            reference_rejected: the same under the reference, (...). Returns (...).
        beta: the strength of the pull towards the reference, above 0.
        label_smoothing: s, in [0, 1].
    Units:
        Nats per preference.
    Gradient:
        `dpo_loss_grad`.
    Fails:
        Only the difference counts: log P of the chosen answer may fall, if the other falls more.
    Raises:
        MathsError: the shapes differ, beta is not above 0, or s not between 0 and 1.
    Source:
        Rafailov et al. 2023, "Direct Preference Optimization", eq. 7; Mitchell 2023, "A note on DPO
        with noisy preferences and relationship to IPO" (smoothing).
    See also:
        `regularised_reward_optimum`, from which it is derived.
    Example:
        dpo_loss(array([-10.0]), array([-30.0]), array([-10.1]), array([-20.1]), beta=0.1)
    """
    z = dpo_margin(chosen, rejected, reference_chosen, reference_rejected, beta=beta)
    return (1 - label_smoothing) * softplus(-z) + label_smoothing * softplus(z)


@equation(dpo_loss)
def dpo_loss_grad(
    chosen: Array,
    rejected: Array,
    reference_chosen: Array,
    reference_rejected: Array,
    *,
    beta: float,
    label_smoothing: float = 0.0,
) -> tuple[Array, Array]:
    """The gradients of `dpo_loss` by log P of the chosen and of the rejected answer.

    dL/d chosen = -beta (sigmoid(-z) - s) = -dL/d rejected

    It is largest when the preference is wrong, and vanishes as the policy learns it.

    Args:
        As `dpo_loss`. Returns dchosen, drejected.
    """
    z = dpo_margin(chosen, rejected, reference_chosen, reference_rejected, beta=beta)
    pull = beta * (sigmoid(-z) - label_smoothing)
    return -pull, pull


@equation(dpo_loss)
def dpo_margin(
    chosen: Array,
    rejected: Array,
    reference_chosen: Array,
    reference_rejected: Array,
    *,
    beta: float,
) -> Array:
    """The implicit reward of the chosen answer minus the one of the rejected answer.

    z = beta [ (log pi_c - log pi_r) - (log ref_c - log ref_r) ]

    Args:
        As `dpo_loss`. Returns (...).
    Gradient:
        beta and -beta.
    Raises:
        MathsError: the shapes differ, or beta is not above 0.
    Source:
        Rafailov et al. 2023, "Direct Preference Optimization", eq. 6.
    Example:
        dpo_margin(array([-10.0]), array([-30.0]), array([-10.1]), array([-20.1]), beta=0.1)
    """
    return beta * ((chosen - rejected) - (reference_chosen - reference_rejected))


@equation(margin=extended("..."))
def hinge_preference_loss(margin: Array) -> Array:
    """A loss on a preference that is 0 once its margin reaches 1.

    L = max(0, 1 - z)

    Args:
        margin: z, (...), as from `dpo_margin`. Returns (...).
    Gradient:
        `hinge_preference_loss_grad`.
    Raises:
        MathsError: the margin is not floating.
    Source:
        Liu et al. 2024, "Statistical Rejection Sampling Improves Preference Optimization".
    Example:
        hinge_preference_loss(array([-1.0, 0.5, 2.0]))
    """
    xp = namespace(margin)
    return xp.where(margin < 1, 1 - margin, xp.zeros_like(margin))


@equation(hinge_preference_loss)
def hinge_preference_loss_grad(margin: Array) -> Array:
    """The gradient of `hinge_preference_loss` by the margin; at 1 the subgradient 0.

    dL/dz = -1 where z < 1, else 0

    Args:
        margin: (...). Returns (...).
    """
    xp = namespace(margin)
    return xp.where(margin < 1, -xp.ones_like(margin), xp.zeros_like(margin))


@equation(
    p=distribution("... answers"),
    reference=distribution("... answers"),
    reward="... answers",
    beta=POSITIVE,
)
def regularised_reward(p: Array, reference: Array, reward: Array, *, beta: float) -> Array:
    """The expected reward of a policy minus a penalty for leaving its reference; maximise it.

    J(p) = sum_i p_i r_i - beta KL(p || ref)

    Args:
        p, reference: (..., answers), distributions. reward: like them. Returns (...).
        beta: above 0.
    Units:
        The reward's units.
    Gradient:
        `regularised_reward_grad`.
    Fails:
        It is -inf if the policy gives probability to an answer that the reference never gives.
    Raises:
        MathsError: the shapes differ, a distribution does not sum to one, or beta is not above 0.
    Source:
        Rafailov et al. 2023, "Direct Preference Optimization", eq. 3.
    See also:
        `regularised_reward_optimum`.
    Example:
        regularised_reward(array([0.5, 0.5]), array([0.9, 0.1]), array([0.0, 1.0]), beta=0.5)
    """
    return namespace(p, reward).sum(p * reward, axis=-1) - beta * kl_divergence(p, reference)


@equation(regularised_reward)
def regularised_reward_grad(p: Array, reference: Array, reward: Array, *, beta: float) -> Array:
    """The gradient of `regularised_reward` by the policy's probabilities.

    dJ/dp_i = r_i - beta (log(p_i / ref_i) + 1)

    Args:
        As `regularised_reward`. Returns like p.
    """
    return reward - beta * kl_divergence_grad(p, reference)[0]


@equation(regularised_reward)
def regularised_reward_optimum(reference: Array, reward: Array, *, beta: float) -> Array:
    """The policy that maximises `regularised_reward`: the reference, reweighted by the reward.

    p_i = ref_i exp(r_i / beta) / Z

    At the optimum the gradient is the same for every answer, so moving probability gains nothing.

    Args:
        reference: (..., answers), a distribution. reward: like it. Returns like it.
        beta: above 0. A large beta gives the reference, a small one only the best answer.
    Raises:
        MathsError: the shapes differ, the reference does not sum to one, or beta is not above 0.
    Source:
        Rafailov et al. 2023, "Direct Preference Optimization", eq. 4.
    Example:
        regularised_reward_optimum(array([0.9, 0.1]), array([0.0, 1.0]), beta=0.5)
    """
    return softmax(log_of(reference) + reward / beta)


@equation(chosen="...", rejected="...")
def bradley_terry_loss(chosen: Array, rejected: Array) -> Array:
    """The surprise of a reward model at a preference: what it is trained by.

    L = -log sigmoid(r_c - r_r)

    Bradley and Terry: c is preferred to r with the probability sigmoid(r_c - r_r). A constant that
    is added to all rewards of a prompt changes nothing. That lets DPO do without the reward model.

    Args:
        chosen, rejected: the rewards of two answers to a prompt, (...). Returns (...).
    Units:
        Nats per preference.
    Gradient:
        `bradley_terry_loss_grad`.
    Fails:
        It learns what people prefer, with their biases: for longer answers, for instance.
    Raises:
        MathsError: the shapes differ.
    Source:
        Bradley and Terry 1952, "Rank Analysis of Incomplete Block Designs: I. The Method of Paired
        Comparisons"; Ouyang et al. 2022, "Training language models to follow instructions with
        human feedback", eq. 1.
    See also:
        `dpo_loss`, the same with implicit rewards.
    Example:
        bradley_terry_loss(array([2.0, 0.0]), array([0.0, 0.0]))
    """
    return softplus(rejected - chosen)


@equation(bradley_terry_loss)
def bradley_terry_loss_grad(chosen: Array, rejected: Array) -> tuple[Array, Array]:
    """The gradient of `bradley_terry_loss` by both rewards.

    dL/dr_c = -sigmoid(r_r - r_c),  dL/dr_r = sigmoid(r_r - r_c)

    Args:
        As `bradley_terry_loss`. Returns dchosen, drejected.
    """
    wrong = sigmoid(rejected - chosen)
    return -wrong, wrong


@equation(n=COUNT)
def best_of_n_kl(n: int) -> float:
    """How far the best of n samples is from the model that they come from, at most.

    KL <= log n - (n - 1) / n

    The best of n by a reward has the density n u^(n - 1) in the rank u, and this is its KL from
    even ranks. It is exact if no two answers are alike.

    Units:
        Nats per answer.
    Source:
        Stiennon et al. 2020, "Learning to summarize from human feedback", appendix G.3; Beirami et
        al. 2024, "Theoretical guarantees on the best-of-n alignment policy" (that it is a bound).
    Example:
        best_of_n_kl(16)
    """
    return math.log(n) - (n - 1) / n
