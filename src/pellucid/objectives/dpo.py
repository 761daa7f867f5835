"""Make the better of two answers likelier, without a reward model (DPO).

The chosen and the rejected answers go through the model one after the other. So neither is padded
to the length of the other, and the backward pass needs the same memory.
"""

from __future__ import annotations

from typing import Literal, assert_never

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.batches import LanguageModel, Loss, PreferenceBatch, TokenBatch
from pellucid.maths.dpo import dpo_loss, dpo_margin, hinge_preference_loss
from pellucid.maths.logistic import softplus
from pellucid.objectives.chunks import row_log_p
from pellucid.objectives.reference import Reference, open_reference


class DPO:
    """-log sigmoid(z), z = beta [(log pi_c - log ref_c) - (log pi_r - log ref_r)], over pairs.

    log P of an answer is the sum over its tokens. `label_smoothing` s assumes that a share s of the
    pairs is swapped; "hinge" is max(0, 1 - z).

    Parts: `loss_nats`, -log sigmoid(z) for every kind of loss; `accuracy`, the share of pairs with
    z > 0, where ties count half; `margin`, z; `chosen_reward` and `rejected_reward`, beta log(pi /
    ref); `log_ratio`, log(pi / ref) in nats per answer. It is not a KL divergence: the answers come
    from the data, not from the model.

    Source:
        Rafailov et al. 2023, "Direct Preference Optimization", eq. 7; Mitchell 2023 (smoothing);
        Liu et al. 2024, "Statistical Rejection Sampling Improves Preference Optimization" (hinge).
    See also:
        `pellucid.maths.dpo_loss`, `pellucid.maths.hinge_preference_loss`.
    """

    def __init__(
        self,
        reference: Reference,
        *,
        beta: float,
        loss: Literal["sigmoid", "hinge"] = "sigmoid",
        label_smoothing: float = 0.0,
    ) -> None:
        self.reference = reference
        self.beta = beta
        self.loss: Literal["sigmoid", "hinge"] = loss
        self.label_smoothing = label_smoothing

    def __call__(self, model: LanguageModel, batch: PreferenceBatch) -> Loss:
        """The batch's share of the mean over pairs."""
        answers = (batch.chosen, batch.rejected)
        chosen, rejected = (answer_log_p(model, answer) for answer in answers)
        with open_reference(self.reference, model) as reference:
            reference_log_ps = tuple(answer_log_p(reference, answer) for answer in answers)
        log_ps = (chosen, rejected, *reference_log_ps)
        n = batch.n_supervised
        with torch.no_grad():
            parts = {name: part.sum() / n for name, part in self._parts(*log_ps).items()}
        return Loss(total=self._losses(*log_ps).sum() / n, parts=parts)

    def _losses(self, *log_ps: Tensor) -> Tensor:
        match self.loss:
            case "sigmoid":
                return dpo_loss(*log_ps, beta=self.beta, label_smoothing=self.label_smoothing)
            case "hinge":
                return hinge_preference_loss(dpo_margin(*log_ps, beta=self.beta))
            case _:
                assert_never(self.loss)

    def _parts(self, *log_ps: Tensor) -> dict[str, Tensor]:
        """The reported parts of each pair."""
        chosen, rejected = log_ps[0] - log_ps[2], log_ps[1] - log_ps[3]
        margin = dpo_margin(*log_ps, beta=self.beta)
        return {
            "loss_nats": softplus(-margin),
            "accuracy": (margin.sign() + 1) / 2,
            "margin": margin,
            "chosen_reward": self.beta * chosen,
            "rejected_reward": self.beta * rejected,
            "log_ratio": (chosen + rejected) / 2,
        }


def answer_log_p(model: LanguageModel, batch: TokenBatch) -> Float[Tensor, " batch"]:
    """log P of each row's targets, as one answer."""
    hidden = model.hidden_states(batch.ids, documents=batch.documents, padding=batch.padding)
    return row_log_p(model, hidden, batch.targets).sum(-1)
