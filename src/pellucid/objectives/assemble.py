"""The one door from a config to an objective.

No other file of this room reads a config.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, assert_never, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from pellucid import config
from pellucid.batches import LanguageModel, Loss
from pellucid.errors import ConfigError
from pellucid.maths.policy_gradient import grpo_advantages, rloo_advantages
from pellucid.objectives.classification import Classification
from pellucid.objectives.distillation import Distillation
from pellucid.objectives.dpo import DPO
from pellucid.objectives.policy_gradient import PolicyGradient
from pellucid.objectives.reference import Reference
from pellucid.objectives.token_loss import MLM, NextToken, Seq2Seq

#: Added to the standard deviation of a group's rewards, which may be 0.
_LEAST_SPREAD = 1e-4


@runtime_checkable
class Objective(Protocol):
    """A loss that adds up over micro-batches.

    Each objective takes its own kind of batch.
    """

    def __call__(self, model: Any, batch: Any) -> Loss:
        """The batch's share of the mean over the update's `n_supervised` terms.

        It divides by the number of terms of the whole update, not of the micro-batch. So the sum of
        accumulated gradients equals the gradient of one large batch.
        """
        ...


def assemble(
    objective: config.Objective,
    *,
    teacher: LanguageModel | None = None,
    reference: Reference | None = None,
) -> Objective:
    """The objective that `objective` describes.

    Args:
        objective: its kind and numbers.
        teacher: the model that distillation learns from.
        reference: the model that DPO compares with; a policy gradient uses it to report the exact
            KL.

    Raises:
        ConfigError: the objective needs a model that you did not pass.
    """
    match objective:
        case config.NextToken() | config.SFT():
            return NextToken(
                label_smoothing=objective.label_smoothing,
                z_loss=objective.z_loss,
                entropy_bonus=objective.entropy_bonus,
            )
        case config.MLM():
            return MLM()
        case config.SpanCorruption():
            return Seq2Seq()
        case config.Seq2Seq():
            return Seq2Seq(
                label_smoothing=objective.label_smoothing,
                z_loss=objective.z_loss,
                entropy_bonus=objective.entropy_bonus,
            )
        case config.Classification():
            return Classification(
                label_smoothing=objective.label_smoothing, multi_label=objective.multi_label
            )
        case config.Distillation():
            return _distillation(objective, teacher)
        case config.DPO():
            return _dpo(objective, reference)
        case config.PolicyGradient():
            return PolicyGradient(
                beta=objective.beta,
                kl=objective.kl,
                temperature=objective.temperature,
                entropy_bonus=objective.entropy_bonus,
                reference=reference,
            )
        case _:
            assert_never(objective)


def _distillation(objective: config.Distillation, teacher: LanguageModel | None) -> Distillation:
    if teacher is None:
        raise ConfigError(
            "objective Distillation needs a teacher: name its run in objective.teacher"
        )
    return Distillation(
        teacher,
        divergence=objective.divergence,
        temperature=objective.temperature,
        hard_weight=objective.hard_weight,
    )


def _dpo(objective: config.DPO, reference: Reference | None) -> DPO:
    if reference is None:
        raise ConfigError(
            "objective DPO compares the model with its starting point, and there is none: start "
            "from a trained run"
        )
    return DPO(
        reference,
        beta=objective.beta,
        loss=objective.loss,
        label_smoothing=objective.label_smoothing,
    )


def assemble_advantages(
    objective: config.PolicyGradient,
) -> Callable[[Float[Tensor, "prompts samples"]], Float[Tensor, "prompts samples"]]:
    """The function from the rewards of each prompt's answers to their advantages."""
    match objective.estimator:
        case "rloo":
            return rloo_advantages
        case "grpo":
            return partial(grpo_advantages, eps=_LEAST_SPREAD)
        case _:
            assert_never(objective.estimator)
