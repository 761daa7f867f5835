"""Make answers with a better reward than expected likelier, while staying close to a reference."""

from __future__ import annotations

from typing import Literal, assert_never

import torch
from torch import Tensor

from pellucid.batches import LanguageModel, Loss, RolloutBatch
from pellucid.maths.distillation import kl_k1, kl_k2, kl_k3
from pellucid.maths.policy_gradient import policy_gradient_loss
from pellucid.objectives.chunks import LazyLogits, token_log_p
from pellucid.objectives.distillation import token_divergence
from pellucid.objectives.reference import Reference, open_reference
from pellucid.objectives.token_loss import token_entropy


class PolicyGradient:
    """-A log pi(answer) + beta KL(pi || ref) - entropy_bonus H, a mean over answers.

    log pi of an answer is the sum over its tokens, not their mean. So the gradient is the gradient
    of the expected reward, for short and long answers alike. Each update needs new answers: a
    second update on the same answers would have a biased gradient. Sample them at `temperature`;
    `reference_log_p` must have the same temperature.

    `kl` chooses the penalty for leaving the reference, with r = ref / pi:

    - "in_reward": the advantages contain it already, and nothing is added here.
    - "k2": (log r)^2 / 2 of the whole answer. Its mean gradient is the gradient of KL, so it keeps
      the optimum ref exp(reward / beta) / Z.
    - "k3": r - 1 - log r of each token, as in GRPO. Its mean is KL, but its mean gradient is the
      gradient of KL(ref || pi), so it has another optimum.

    Parts, as sums over the tokens of an answer, in nats per answer:

    - `loss_nats`: -log pi. The value of the loss itself has no meaning.
    - `kl_k1`, `kl_k2`, `kl_k3`: estimates of KL(pi || ref).
    - `kl_exact`, if there is a `reference`: each token's KL over the whole vocabulary.
    - `entropy`, if there is a bonus.

    `reward` is the mean reward of the answers.

    Source:
        Williams 1992 (the gradient); Ahmadian et al. 2024, "Back to Basics" (RLOO, whole answers);
        Shao et al. 2024, "DeepSeekMath", eq. 4 (k3 as a loss); Schulman 2020, "Approximating KL
        Divergence" (the estimates).
    See also:
        `pellucid.maths.policy_gradient_loss`, `rloo_advantages`, `grpo_advantages`, `kl_k2`.
    """

    def __init__(
        self,
        *,
        beta: float,
        kl: Literal["in_reward", "k2", "k3"],
        temperature: float = 1.0,
        entropy_bonus: float = 0.0,
        reference: Reference | None = None,
    ) -> None:
        self.beta = beta
        self.kl: Literal["in_reward", "k2", "k3"] = kl
        self.temperature = temperature
        self.entropy_bonus = entropy_bonus
        self.reference = reference

    def __call__(self, model: LanguageModel, batch: RolloutBatch) -> Loss:
        """The batch's share of the mean over answers."""
        n, flat = batch.n_supervised, batch.targets.flatten()
        lazy = self._lazy(model, batch)
        log_p = token_log_p(lazy, flat).view_as(batch.targets)
        log_ratio = batch.reference_log_p.to(log_p.dtype) - log_p
        losses = policy_gradient_loss(log_p.sum(-1), batch.advantages.to(log_p.dtype))
        total = (losses + self.beta * self._kl_penalty(log_ratio)).sum() / n
        parts = {"loss_nats": -log_p.sum() / n, "reward": batch.rewards.sum() / n}
        for name, estimate in (("kl_k1", kl_k1), ("kl_k2", kl_k2), ("kl_k3", kl_k3)):
            parts[name] = estimate(log_ratio.detach()).sum() / n
        if self.reference is not None:
            parts["kl_exact"] = self._exact_kl(self.reference, model, lazy, batch).sum() / n
        if self.entropy_bonus:
            parts["entropy"] = token_entropy(lazy, flat).sum() / n
            total = total - self.entropy_bonus * parts["entropy"]
        return Loss(total=total, parts={name: part.detach() for name, part in parts.items()})

    def _lazy(self, model: LanguageModel, batch: RolloutBatch) -> LazyLogits:
        return LazyLogits.from_model(
            model, model.hidden_states(batch.ids), temperature=self.temperature
        )

    def _kl_penalty(self, log_ratio: Tensor) -> Tensor:
        """Each answer's penalty for its distance from the reference, before `beta`."""
        match self.kl:
            case "in_reward":
                return torch.zeros_like(log_ratio[:, 0])
            case "k2":
                return kl_k2(log_ratio.sum(-1))
            case "k3":
                return kl_k3(log_ratio).sum(-1)
            case _:
                assert_never(self.kl)

    @torch.no_grad()
    def _exact_kl(
        self, reference: Reference, model: LanguageModel, lazy: LazyLogits, batch: RolloutBatch
    ) -> Tensor:
        with open_reference(reference, model) as reference_model:
            reference_logits = self._lazy(reference_model, batch)
        return token_divergence(
            lazy, reference_logits, batch.targets.flatten(), divergence="reverse"
        )
