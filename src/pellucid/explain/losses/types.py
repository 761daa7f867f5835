"""What the loss of one example is made of; one type for each objective.

`places` are the positions whose logits count, in order, and `targets` the token that each should
predict. Row i of the addresses `surprisal` and `error` is about place i.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

Divergence = Literal["forward", "reverse", "jensen_shannon"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TokenLoss:
    """-sum_i y_i log p_i + z_loss (log Z)^2 - entropy_bonus H(p), a mean over the places.

    Attributes:
        places: (n,), positions.
        targets: (n,), token ids.
        label_smoothing: the share of y that is spread over the vocabulary.
        z_loss: the weight of (log Z)^2.
        entropy_bonus: the weight of the entropy.
    """

    places: Tensor
    targets: Tensor
    label_smoothing: float = 0.0
    z_loss: float = 0.0
    entropy_bonus: float = 0.0

    @property
    def is_plain(self) -> bool:
        """Whether the loss is -log p alone."""
        return not (self.label_smoothing or self.z_loss or self.entropy_bonus)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DistillationLoss:
    """(1 - h) T^2 D(teacher, student) + h CE, a mean over the places.

    Attributes:
        places: (n,), positions.
        targets: (n,), token ids.
        teacher_logits: (n, vocabulary), of the teacher at the places.
        divergence: which D.
        temperature: T, of both distributions.
        hard_weight: h.
    """

    places: Tensor
    targets: Tensor
    teacher_logits: Tensor
    divergence: Divergence
    temperature: float
    hard_weight: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreferenceLoss:
    """-log sigmoid(z), z = beta [(log pi_c - log ref_c) - (log pi_r - log ref_r)], for one pair.

    Attributes:
        places: (n,), the positions that predict this answer.
        targets: (n,), the tokens of this answer.
        is_chosen: whether this is the chosen answer; the other one is the companion.
        reference_log_ps: (n,), log p of each of its tokens under the reference.
        beta: how strongly the reference holds.
        kind: "sigmoid" or "hinge".
        label_smoothing: the share of pairs that may be swapped.
    """

    places: Tensor
    targets: Tensor
    is_chosen: bool
    reference_log_ps: Tensor
    beta: float
    kind: Literal["sigmoid", "hinge"]
    label_smoothing: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PolicyLoss:
    """-A log pi(answer) + beta KL - entropy_bonus H, for one answer of a group.

    Attributes:
        places: (n,), the positions that predict the answer.
        targets: (n,), its tokens.
        rewards: of all answers to the prompt, this one first.
        advantage: A, what the reward exceeds the others' by.
        reference_log_ps: (n,), log p of each of its tokens under the reference, at the temperature.
        beta: the weight of the KL.
        kl: which estimate of the KL is added to the loss.
        temperature: divides the logits.
        entropy_bonus: the weight of the entropy.
    """

    places: Tensor
    targets: Tensor
    rewards: tuple[float, ...]
    advantage: float
    reference_log_ps: Tensor
    beta: float
    kl: Literal["in_reward", "k2", "k3"]
    temperature: float
    entropy_bonus: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClassLoss:
    """-log p(class), or the mean of yes-or-no losses over the classes.

    Attributes:
        classes: their names, or numbers.
        labels: the class's number, (); or a 0 or 1 for each class, (classes,).
        label_smoothing: the share of y that is spread over the classes.
    """

    classes: tuple[str, ...]
    labels: Tensor
    label_smoothing: float = 0.0

    @property
    def multi_label(self) -> bool:
        """Whether a text may have several classes."""
        return self.labels.ndim == 1


#: Losses whose terms belong to tokens.
TokensLoss = TokenLoss | DistillationLoss | PreferenceLoss | PolicyLoss
ExampleLoss = TokensLoss | ClassLoss
