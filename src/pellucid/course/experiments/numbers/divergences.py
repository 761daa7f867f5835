"""Claims about distances between distributions: KL, distillation, DPO."""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid.course.experiments.picture import Curves, bars, curve
from pellucid.course.experiments.record import (
    Experiment,
    Question,
    Reading,
    Setting,
    Source,
    in_range,
    lower_bound,
    upper_bound,
)
from pellucid.maths.distillation import forward_kl_grad
from pellucid.maths.divergences import kl_divergence
from pellucid.maths.dpo import dpo_loss_grad
from pellucid.maths.logistic import sigmoid
from pellucid.maths.optimisers import adamw_step
from pellucid.maths.softmax import log_softmax, log_softmax_grad


def _kl_directions(setting: Setting) -> Reading:
    p, q = np.array([0.5, 0.5]), np.array([0.9, 0.1])
    certain = np.array([1.0, 0.0])
    forward, reverse = float(kl_divergence(p, q)), float(kl_divergence(q, p))
    return Reading(
        numbers={
            "KL of (.5, .5) from (.9, .1) (nats)": forward,
            "KL of (.9, .1) from (.5, .5) (nats)": reverse,
            "difference of the two (nats)": forward - reverse,
            "KL of (1, 0) from (.5, .5) (nats)": float(kl_divergence(certain, p)),
            "KL of (.5, .5) from (1, 0)": float(kl_divergence(p, certain)),
        },
        picture=bars(
            "KL in nats between even odds and (.9, .1)",
            {"KL(even || .9, .1)": forward, "KL(.9, .1 || even)": reverse},
        ),
    )


def _two_modes(setting: Setting) -> Reading:
    x = np.linspace(-8, 8, 321)
    target = _bell(x, -3, 0.7) + _bell(x, 3, 0.7)
    target /= target.sum()
    fits = {name: _best_fit(x, target, name) for name in ("forward", "reverse")}
    curves = [curve("target", x, target)]
    curves += [curve(name, x, _bell(x, *fit)) for name, fit in fits.items()]
    return Reading(
        numbers={
            "forward KL: distance of its mean from the middle": abs(fits["forward"][0]),
            "forward KL: its deviation": fits["forward"][1],
            "reverse KL: distance of its mean from the nearest mode": abs(
                abs(fits["reverse"][0]) - 3
            ),
            "reverse KL: its deviation": fits["reverse"][1],
        },
        picture=Curves(
            title="One bell fitted to a target with two modes",
            x_label="x",
            y_label="probability",
            curves=tuple(curves),
        ),
    )


def _bell(x: Any, mean: float, std: float) -> Any:
    p = np.exp(-0.5 * ((x - mean) / std) ** 2) + 1e-300
    return p / p.sum()


def _best_fit(x: Any, target: Any, direction: str) -> tuple[float, float]:
    """The mean and deviation of the bell with the least divergence, from a grid."""
    best = (np.inf, 0.0, 1.0)
    for mean in np.linspace(-4, 4, 65):
        for std in np.linspace(0.3, 5, 48):
            bell = _bell(x, mean, std)
            pair = (target, bell) if direction == "forward" else (bell, target)
            best = min(best, (float(kl_divergence(*pair)), float(mean), float(std)))
    return best[1:]


def _distillation(setting: Setting) -> Reading:
    random = np.random.default_rng(setting.seed)
    student, teacher = random.normal(size=(2, 256, 20)) * 3
    difference = student - teacher
    difference = difference - difference.mean(-1, keepdims=True)
    temperatures = (1.0, 2.0, 4.0, 10.0, 20.0)
    cosines: list[float] = []
    sizes: list[float] = []
    for temperature in temperatures:
        grad = forward_kl_grad(student, teacher, temperature=temperature)
        sizes.append(float(np.linalg.norm(grad)))
        cosines.append(
            float((grad * difference).sum() / np.linalg.norm(grad) / np.linalg.norm(difference))
        )
    return Reading(
        numbers={
            "cosine of gradient and difference of logits at temperature 1": cosines[0],
            "cosine of gradient and difference of logits at temperature 20": cosines[-1],
            "gradient at 20 over gradient at 10": sizes[-1] / sizes[-2],
        },
        picture=Curves(
            title="Does distillation match the teacher's logits?",
            x_label="temperature",
            y_label="cosine of gradient and student - teacher",
            curves=(curve("cosine", temperatures, cosines),),
            log_x=True,
        ),
    )


def _dpo_beta(setting: Setting) -> Reading:
    random = np.random.default_rng(setting.seed)
    reference = log_softmax(random.normal(size=12))
    reward = random.normal(size=12)
    pairs = random.integers(12, size=(400, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    chance = sigmoid(reward[pairs[:, 0]] - reward[pairs[:, 1]])
    flipped = random.random(len(pairs)) > chance
    pairs[flipped] = pairs[flipped][:, ::-1]
    betas = (0.05, 0.1, 0.3, 1.0, 3.0)
    drifts: list[float] = []
    rewards: list[float] = []
    for beta in betas:
        policy = np.exp(_train_dpo(reference, pairs, beta))
        drifts.append(float(kl_divergence(policy, np.exp(reference))))
        rewards.append(float((policy * reward).sum()))
    return Reading(
        numbers={
            "drift at beta 0.05 (nats)": drifts[0],
            "drift at beta 3 (nats)": drifts[-1],
            "drift at beta 0.05 minus drift at beta 3 (nats)": drifts[0] - drifts[-1],
            "reward at beta 0.05 minus reward at beta 3": rewards[0] - rewards[-1],
            "drift at beta 0.3 minus drift at beta 3 (nats)": drifts[2] - drifts[-1],
        },
        picture=Curves(
            title="DPO on one prompt with 12 answers, trained on 400 preferences",
            x_label="beta",
            y_label="KL from the reference (nats), mean reward",
            curves=(curve("KL", betas, drifts), curve("reward", betas, rewards)),
            log_x=True,
        ),
    )


def _train_dpo(reference: Any, pairs: Any, beta: float) -> Any:
    """Log-probabilities of answers after 200 steps of Adam on the DPO loss."""
    logits = np.array(reference)
    m, v = np.zeros(12), np.zeros(12)
    preferred, rejected = pairs.T
    for step in range(1, 201):
        log_p = log_softmax(logits)
        grads = dpo_loss_grad(
            log_p[preferred], log_p[rejected], reference[preferred], reference[rejected], beta=beta
        )
        grad = np.zeros(12)
        np.add.at(grad, preferred, np.asarray(grads[0]) / len(pairs))
        np.add.at(grad, rejected, np.asarray(grads[1]) / len(pairs))
        grad = log_softmax_grad(logits, grad)
        logits, m, v = adamw_step(
            logits, grad, m, v, step=step, learning_rate=0.05, beta1=0.9, beta2=0.99, eps=1e-8,
            weight_decay=0.0,
        )  # fmt: skip
    return log_softmax(logits)


_DPO = Source(
    authors="Rafailov et al.", year=2023, title="Direct Preference Optimization", place="section 4"
)

EXPERIMENTS = (
    Experiment(
        name="kl-both-ways",
        title="KL is not symmetric",
        description="Compute KL both ways between two small distributions.",
        question=Question(
            text="KL from (.5, .5) to (.9, .1) is 0.51 nats. And the other way round?",
            choices=("0.37 nats", "0.51 nats", "-0.51 nats"),
        ),
        claim="KL has another value in the other direction, and is infinite where the second "
        "distribution rules out something that the first allows.",
        source=Source(
            authors="Cover and Thomas",
            year=2006,
            title="Elements of Information Theory",
            place="section 2.3",
        ),
        concepts=("kl_divergence", "relative_entropy"),
        checks=(
            in_range("difference of the two (nats)", 0.14, 0.15),
            in_range("KL of (1, 0) from (.5, .5) (nats)", 0.69, 0.7),
            lower_bound("KL of (.5, .5) from (1, 0)", np.inf),
        ),
        measure=_kl_directions,
    ),
    Experiment(
        name="kl-forward-against-reverse",
        title="Forward KL covers all modes, reverse KL picks one",
        description="Fit one bell to a target with two modes, once with each direction of KL.",
        question=Question(
            text="A bell minimises KL(bell || target). Where does it go?",
            choices=("onto one mode", "between the modes", "over both, as wide as needed"),
        ),
        claim="Forward KL spreads over all modes with its mean between them; reverse KL settles "
        "on one of them.",
        source=Source(
            authors="Bishop",
            year=2006,
            title="Pattern Recognition and Machine Learning",
            place="section 10.1.2",
        ),
        concepts=("forward_kl", "reverse_kl", "kl_divergence"),
        checks=(
            upper_bound("forward KL: distance of its mean from the middle", 0.2),
            lower_bound("forward KL: its deviation", 2.5),
            upper_bound("reverse KL: distance of its mean from the nearest mode", 0.2),
            upper_bound("reverse KL: its deviation", 1.0),
        ),
        measure=_two_modes,
    ),
    Experiment(
        name="distillation-temperature",
        title="A hot teacher is matched logit by logit",
        description="Compare the gradient of distillation with the difference of logits.",
        question=Question(
            text="At a high temperature, the gradient of distillation points along",
            choices=("student's minus teacher's logits", "the right token only", "nothing"),
        ),
        claim="At high temperatures distillation matches logits: its gradient is proportional to "
        "their difference, and shrinks as 1 / T^2.",
        source=Source(
            authors="Hinton, Vinyals and Dean",
            year=2015,
            title="Distilling the Knowledge in a Neural Network",
            place="section 2.1",
        ),
        concepts=("forward_kl", "forward_kl_grad", "objective.temperature"),
        checks=(
            lower_bound("cosine of gradient and difference of logits at temperature 20", 0.99),
            upper_bound("cosine of gradient and difference of logits at temperature 1", 0.9),
            in_range("gradient at 20 over gradient at 10", 0.2, 0.3),
        ),
        measure=_distillation,
        seeds=10,
        quick_seeds=5,
    ),
    Experiment(
        name="dpo-beta",
        title="DPO's beta holds the policy at its reference",
        description="Train a policy over 12 answers on 400 noisy preferences with five betas.",
        question=Question(
            text="You make DPO's beta ten times smaller. The trained policy",
            choices=("drifts further from the reference", "stays nearer to it", "is the same"),
        ),
        claim="A small beta lets the policy drift far from the reference for reward; a large beta "
        "holds it there.",
        source=_DPO,
        concepts=("dpo_loss", "regularised_reward_optimum", "objective.beta"),
        checks=(
            lower_bound("drift at beta 0.05 minus drift at beta 3 (nats)", 0.1),
            lower_bound("reward at beta 0.05 minus reward at beta 3", 0.0),
            lower_bound("drift at beta 0.3 minus drift at beta 3 (nats)", 0.0),
        ),
        measure=_dpo_beta,
        seeds=10,
        quick_seeds=5,
    ),
)
