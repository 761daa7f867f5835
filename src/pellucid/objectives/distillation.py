"""Predict what a teacher predicts, chunk by chunk: neither model's logits exist all at once."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Literal, assert_never

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.batches import LanguageModel, Loss, TokenBatch
from pellucid.errors import PellucidError
from pellucid.maths.distillation import forward_kl, jensen_shannon_of_logits, reverse_kl
from pellucid.objectives.chunks import LazyLogits, in_chunks, supervised
from pellucid.objectives.reference import evaluating
from pellucid.objectives.token_loss import TokenLoss

Divergence = Literal["forward", "reverse", "jensen_shannon"]


def token_divergence(
    lazy: LazyLogits,
    target: LazyLogits,
    targets: Int[Tensor, " tokens"],
    *,
    divergence: Divergence,
) -> Float[Tensor, " tokens"]:
    """The divergence of two models' predictions at each supervised token.

    Args:
        lazy: logits of the trained model.
        target: logits of the other model; they get no gradient.
        targets: (tokens,), the next tokens; ignored ones give 0.
        divergence: "forward" is KL(other || model), "reverse" KL(model || other).
    """

    def compute(logits: Tensor, target_logits: Tensor, targets: Tensor) -> tuple[Tensor]:
        match divergence:
            case "forward":
                divergences = forward_kl(logits, target_logits)
            case "reverse":
                divergences = reverse_kl(logits, target_logits)
            case "jensen_shannon":
                divergences = jensen_shannon_of_logits(logits, target_logits)
            case _:
                assert_never(divergence)
        return (supervised(divergences, targets),)

    (divergences,) = in_chunks(compute, [lazy, target.detach()], targets)
    return divergences


class Distillation:
    """(1 - h) T^2 D(teacher, student) + h CE(next token, student), means over supervised tokens.

    Both distributions have temperature T. The gradient of D shrinks as 1 / T^2, and the factor T^2
    restores the balance of the two terms. Parts: `loss_nats`, the student's plain cross-entropy;
    `divergence`, D in nats per token without T^2; `log_z` and `accuracy`.

    Source:
        Hinton, Vinyals and Dean 2015, "Distilling the Knowledge in a Neural Network", section 2.
    See also:
        `pellucid.maths.forward_kl`, `reverse_kl`, `jensen_shannon_of_logits`.
    """

    def __init__(
        self,
        teacher: LanguageModel,
        *,
        divergence: Divergence,
        temperature: float,
        hard_weight: float,
    ) -> None:
        self.teacher = teacher
        self.divergence: Divergence = divergence
        self.temperature = temperature
        self.hard_weight = hard_weight
        self.hard = TokenLoss()

    def __call__(self, model: LanguageModel, batch: TokenBatch) -> Loss:
        """The batch's share of the mean over supervised tokens.

        Raises:
            PellucidError: the teacher has another vocabulary.
        """
        self._check(model)
        n, soft_weight = batch.n_supervised, 1 - self.hard_weight
        hidden = model.hidden_states(batch.ids, documents=batch.documents, padding=batch.padding)
        # a term without weight is still measured, but needs no backward pass
        with nullcontext() if self.hard_weight else torch.no_grad():
            hard = self.hard(model, hidden, batch.targets, n)
        with nullcontext() if soft_weight else torch.no_grad():
            soft = self._divergences(model, hidden, batch).sum() / n
        total = soft_weight * self.temperature**2 * soft + self.hard_weight * hard.total
        return Loss(total=total, parts={**hard.parts, "divergence": soft.detach()})

    def _divergences(self, model: LanguageModel, hidden: Tensor, batch: TokenBatch) -> Tensor:
        with evaluating(self.teacher):
            teacher_states = self.teacher.hidden_states(
                batch.ids, documents=batch.documents, padding=batch.padding
            )
        return token_divergence(
            LazyLogits.from_model(model, hidden, temperature=self.temperature),
            LazyLogits.from_model(self.teacher, teacher_states, temperature=self.temperature),
            batch.targets.flatten(),
            divergence=self.divergence,
        )

    def _check(self, model: LanguageModel) -> None:
        student_vocab, teacher_vocab = model.head_weight.shape[0], self.teacher.head_weight.shape[0]
        if student_vocab != teacher_vocab:
            raise PellucidError(
                f"the teacher predicts {teacher_vocab} tokens and the student {student_vocab}: "
                "distillation compares them token by token, so both need the same tokenizer; train "
                "the student with the teacher's tokenizer"
            )
