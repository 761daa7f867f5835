"""The value of an example's loss, and its parts, from logits; torch differentiates it.

The equations are in `pellucid.maths`. Tests compare values and gradients with the trainer's
objectives on the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, assert_never

import torch
from torch import Tensor
from torch.nn import functional as F

from pellucid.explain.losses.types import (
    ClassLoss,
    DistillationLoss,
    ExampleLoss,
    PolicyLoss,
    PreferenceLoss,
    TokenLoss,
    TokensLoss,
)
from pellucid.maths.distillation import (
    forward_kl,
    jensen_shannon_of_logits,
    kl_k2,
    kl_k3,
    reverse_kl,
)
from pellucid.maths.divergences import entropy_of_logits
from pellucid.maths.dpo import dpo_loss, dpo_margin, hinge_preference_loss
from pellucid.maths.policy_gradient import policy_gradient_loss

#: Named numbers of a loss.
Parts = Mapping[str, float]


class Companion(NamedTuple):
    """The other answer of a preference: its logits, and its loss."""

    logits: Tensor
    loss: PreferenceLoss


def widen(x: Tensor) -> Tensor:
    """The tensor in float32 at least, for exponentials and sums."""
    return x if x.dtype == torch.float64 else x.float()


def loss_value(loss: ExampleLoss, logits: Tensor, companion: Companion | None = None) -> Tensor:
    """The loss, in nats.

    Args:
        loss: what it is made of.
        logits: (time, vocabulary), or (classes,) of a classifier.
        companion: of a preference, the other answer; its logits get a gradient
            too if they require one.
    """
    match loss:
        case ClassLoss():
            return _class_loss(loss, widen(logits))
        case TokenLoss() | DistillationLoss():
            return token_terms(loss, logits).mean()
        case PreferenceLoss():
            assert companion is not None
            return _preference_loss(loss, logits, companion)
        case PolicyLoss():
            return _policy_loss(loss, logits)
        case _:
            assert_never(loss)


def at_places(loss: TokensLoss, logits: Tensor) -> Tensor:
    """(n, vocabulary): the logits that count, in float32 at least."""
    return widen(logits[loss.places])


def log_ps(loss: TokensLoss, logits: Tensor, *, temperature: float = 1.0) -> Tensor:
    """(n,): log p of each target."""
    scaled = at_places(loss, logits) / temperature
    return torch.log_softmax(scaled, dim=-1).gather(1, loss.targets[:, None])[:, 0]


def log_z(loss: TokenLoss | PolicyLoss, logits: Tensor) -> Tensor:
    """(n,): log of the sum of exp(z) at each place, with z over the temperature."""
    return _scaled(loss, logits).logsumexp(-1)


def entropies(loss: TokenLoss | PolicyLoss, logits: Tensor) -> Tensor:
    """(n,): the entropy of each prediction, at the temperature."""
    return entropy_of_logits(_scaled(loss, logits))


def _scaled(loss: TokenLoss | PolicyLoss, logits: Tensor) -> Tensor:
    temperature = loss.temperature if isinstance(loss, PolicyLoss) else 1.0
    return at_places(loss, logits) / temperature


def token_terms(loss: TokenLoss | DistillationLoss, logits: Tensor) -> Tensor:
    """(n,): the term of each place, whose mean is the loss."""
    z = at_places(loss, logits)
    match loss:
        case TokenLoss():
            terms = F.cross_entropy(
                z, loss.targets, reduction="none", label_smoothing=loss.label_smoothing
            )
            if loss.z_loss:
                terms = terms + loss.z_loss * log_z(loss, logits) ** 2
            if loss.entropy_bonus:
                terms = terms - loss.entropy_bonus * entropies(loss, logits)
            return terms
        case DistillationLoss():
            soft = divergences(loss, logits)
            hard = F.cross_entropy(z, loss.targets, reduction="none")
            return (1 - loss.hard_weight) * loss.temperature**2 * soft + loss.hard_weight * hard
        case _:
            assert_never(loss)


def tempered_log_ps(loss: DistillationLoss, logits: Tensor) -> Tensor:
    """(n, vocabulary): log p of every word at the temperature."""
    return torch.log_softmax(widen(logits) / loss.temperature, dim=-1)


def divergences(loss: DistillationLoss, logits: Tensor) -> Tensor:
    """(n,): D(teacher, student) at each place, in nats, without T^2."""
    student = at_places(loss, logits) / loss.temperature
    teacher = widen(loss.teacher_logits).to(student.dtype) / loss.temperature
    match loss.divergence:
        case "forward":
            return forward_kl(student, teacher)
        case "reverse":
            return reverse_kl(student, teacher)
        case "jensen_shannon":
            return jensen_shannon_of_logits(student, teacher)
        case _:
            assert_never(loss.divergence)


def answer_log_ps(loss: PreferenceLoss, logits: Tensor) -> tuple[Tensor, Tensor]:
    """log P of one answer, under the model and under the reference."""
    log_p = log_ps(loss, logits).sum()
    return log_p, widen(loss.reference_log_ps).to(log_p.dtype).sum()


def four_log_ps(
    loss: PreferenceLoss, logits: Tensor, companion: Companion
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """log P of the chosen and the rejected answer, under the model, then under the reference."""
    first, second = answer_log_ps(loss, logits), answer_log_ps(companion.loss, companion.logits)
    first, second = (first, second) if loss.is_chosen else (second, first)
    return first[0], second[0], first[1], second[1]


def preference_margin(loss: PreferenceLoss, logits: Tensor, companion: Companion) -> Tensor:
    """(): beta [(log pi_c - log ref_c) - (log pi_r - log ref_r)]."""
    return dpo_margin(*four_log_ps(loss, logits, companion), beta=loss.beta)


def preference_weight(loss: PreferenceLoss, margin: float) -> float:
    """By how much the loss falls if log P of this answer rises; below 0 for the rejected one."""
    match loss.kind:
        case "hinge":
            slope = 1.0 if margin < 1 else 0.0
        case "sigmoid":
            s, sigmoid = loss.label_smoothing, float(torch.tensor(margin).double().sigmoid())
            slope = (1 - s) * (1 - sigmoid) - s * sigmoid
        case _:
            assert_never(loss.kind)
    return loss.beta * slope * (1 if loss.is_chosen else -1)


def _preference_loss(loss: PreferenceLoss, logits: Tensor, companion: Companion) -> Tensor:
    parts = four_log_ps(loss, logits, companion)
    match loss.kind:
        case "sigmoid":
            return dpo_loss(*parts, beta=loss.beta, label_smoothing=loss.label_smoothing)
        case "hinge":
            return hinge_preference_loss(dpo_margin(*parts, beta=loss.beta))
        case _:
            assert_never(loss.kind)


def _policy_loss(loss: PolicyLoss, logits: Tensor) -> Tensor:
    """The answer's share, before the mean over all answers of an update."""
    policy = log_ps(loss, logits, temperature=loss.temperature)
    log_ratios = loss.reference_log_ps.to(policy.dtype) - policy
    total = policy_gradient_loss(policy.sum(), torch.tensor(loss.advantage, dtype=policy.dtype))
    match loss.kl:
        case "in_reward":
            pass
        case "k2":
            total = total + loss.beta * kl_k2(log_ratios.sum())
        case "k3":
            total = total + loss.beta * kl_k3(log_ratios).sum()
        case _:
            assert_never(loss.kl)
    if loss.entropy_bonus:
        total = total - loss.entropy_bonus * entropies(loss, logits).sum()
    return total


def _class_loss(loss: ClassLoss, logits: Tensor) -> Tensor:
    if loss.multi_label:
        return F.binary_cross_entropy_with_logits(logits, loss.labels.to(logits.dtype))
    return F.cross_entropy(logits, loss.labels, label_smoothing=loss.label_smoothing)


def n_terms(loss: ExampleLoss) -> int:
    """By how much the sum of the errors is divided: the terms of a mean, or 1."""
    match loss:
        case TokenLoss() | DistillationLoss():
            return len(loss.places)
        case PreferenceLoss() | PolicyLoss():
            return 1
        case ClassLoss():
            return len(loss.classes) if loss.multi_label else 1
        case _:
            assert_never(loss)


def parts_of(loss: ExampleLoss, logits: Tensor, companion: Companion | None = None) -> Parts:
    """The parts of a loss, in nats unless the name says otherwise.

    Args:
        loss: what it is made of.
        logits: as in `loss_value`.
        companion: as in `loss_value`.
    """
    match loss:
        case ClassLoss():
            return {}
        case TokenLoss():
            return {
                "cross_entropy": float(F.cross_entropy(at_places(loss, logits), loss.targets)),
                "log_z_squared": float((log_z(loss, logits) ** 2).mean()),
                "entropy": float(entropies(loss, logits).mean()),
            }
        case DistillationLoss():
            hard = F.cross_entropy(at_places(loss, logits), loss.targets)
            soft = divergences(loss, logits).mean()
            return {"divergence": float(soft), "cross_entropy": float(hard)}
        case PreferenceLoss():
            assert companion is not None
            names = ("chosen", "rejected", "reference_chosen", "reference_rejected")
            values = four_log_ps(loss, logits, companion)
            margin = preference_margin(loss, logits, companion)
            parts = {f"log_p_{name}": float(v) for name, v in zip(names, values, strict=True)}
            return {
                **parts,
                "margin": float(margin),
                "sigmoid": float(torch.sigmoid(margin)),
            }
        case PolicyLoss():
            policy = log_ps(loss, logits, temperature=loss.temperature)
            ratios = loss.reference_log_ps.to(policy.dtype) - policy
            baseline = loss.rewards[0] - loss.advantage
            return {
                "reward": loss.rewards[0],
                "baseline": baseline,
                "advantage": loss.advantage,
                "log_p": float(policy.sum()),
                "log_ratio": float(-ratios.sum()),
                "kl_k3": float(kl_k3(ratios).sum()),
            }
        case _:
            assert_never(loss)


def errors(loss: ExampleLoss, logits: Tensor, companion: Companion | None = None) -> Tensor:
    """(n, vocabulary): the gradient of the loss by the logits that count, times `n_terms`.

    It is p - y of each place for a plain cross-entropy. A classifier has one row, of its classes.

    Args:
        loss: what it is made of.
        logits: as in `loss_value`.
        companion: as in `loss_value`.
    """
    with torch.enable_grad():
        leaf = widen(logits).detach().requires_grad_()
        detached = (
            None if companion is None else companion._replace(logits=companion.logits.detach())
        )
        (gradient,) = torch.autograd.grad(loss_value(loss, leaf, detached), [leaf])
    rows = gradient[None] if isinstance(loss, ClassLoss) else gradient[loss.places]
    return rows * n_terms(loss)
