"""Every objective with a model and a batch that it can be called with; a bandit with two arms.

Comes in: nothing. Goes out: what the laws of `tests/objectives` are held against.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from pellucid import maths
from pellucid.batches import (
    IGNORED,
    Batch,
    LabelBatch,
    PairBatch,
    PreferenceBatch,
    RolloutBatch,
    TokenBatch,
)
from pellucid.objectives import (
    DPO,
    MLM,
    Classification,
    Distillation,
    NextToken,
    PolicyGradient,
    Seq2Seq,
    frozen_reference,
)
from support.models import ENCODERS, PAIRS, VARIANTS, build, random_ids

ROWS, TIME, VOCAB, CLASSES = 4, 9, 23, 3
#: How many positions at the end of each row are not supervised.
UNEVEN = (0, 5, 2, 7)


class Classified(nn.Module):
    """An encoder and a head of classes over the mean of its states."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.encoder = model
        self.classes = nn.Linear(16, CLASSES, dtype=torch.float64)

    def class_logits(self, ids: Tensor, *, padding: Tensor | None = None) -> Tensor:
        return self.classes(self.encoder.hidden_states(ids, padding=padding).mean(1))


class Bandit(nn.Module):
    """Two tokens, each of them a whole answer; nothing but their logits."""

    head_bias = None
    soft_cap = None

    def __init__(self, p: float) -> None:
        super().__init__()
        first = torch.tensor(p, dtype=torch.float64).logit()
        self.logits = nn.Parameter(torch.stack([first, first * 0])[:, None])

    @property
    def head_weight(self) -> Tensor:
        return self.logits

    @property
    def p(self) -> float:
        """The probability of the first arm."""
        return float(self.logits.detach()[:, 0].softmax(0)[0])

    def encode(self, ids: Tensor, *, padding: Tensor | None = None) -> Any:
        raise NotImplementedError

    def hidden_states(self, ids: Tensor, **seen: Any) -> Tensor:
        return torch.ones(*ids.shape, 1, dtype=torch.float64)


def targets_of(seed: int, *, ignored: tuple[int, ...] = UNEVEN) -> Tensor:
    targets = random_ids(ROWS, TIME, seed=seed)
    for row, count in enumerate(ignored):
        targets[row, TIME - count :] = IGNORED
    return targets


def count(targets: Tensor) -> int:
    return int((targets != IGNORED).sum())


def token_batch(seed: int = 1) -> TokenBatch:
    targets = targets_of(seed + 1)
    return TokenBatch(
        ids=random_ids(ROWS, TIME, seed=seed), targets=targets, n_supervised=count(targets)
    )


def padded_batch() -> TokenBatch:
    padding = torch.ones(ROWS, TIME, dtype=torch.bool)
    padding[1, 6:] = False
    return replace(token_batch(), padding=padding)


def pair_batch() -> PairBatch:
    targets = targets_of(7)
    padding = torch.ones(ROWS, 6, dtype=torch.bool)
    padding[2, 4:] = False
    return PairBatch(
        source=random_ids(ROWS, 6, seed=5),
        source_padding=padding,
        ids=random_ids(ROWS, TIME, seed=6),
        targets=targets,
        n_supervised=count(targets),
    )


def label_batch(labels: Tensor) -> LabelBatch:
    return LabelBatch(
        ids=random_ids(ROWS, TIME),
        padding=torch.ones(ROWS, TIME, dtype=torch.bool),
        labels=labels,
        n_supervised=ROWS,
    )


def preference_batch() -> PreferenceBatch:
    longer = token_batch(11)
    return PreferenceBatch(
        chosen=token_batch(),
        rejected=TokenBatch(
            ids=torch.cat([longer.ids, longer.ids[:, :3]], 1),
            targets=torch.cat([longer.targets, longer.targets[:, :3]], 1),
            n_supervised=1,
        ),
        n_supervised=ROWS,
    )


def rollout_batch() -> RolloutBatch:
    generator = torch.Generator().manual_seed(3)
    targets = targets_of(4)
    is_target = targets != IGNORED
    log_p = torch.randn(ROWS, TIME, generator=generator, dtype=torch.float64) * is_target
    rewards = torch.tensor([1.0, 0.0, 0.5, -1.0], dtype=torch.float64)
    return RolloutBatch(
        ids=random_ids(ROWS, TIME, seed=9),
        targets=targets,
        advantages=maths.rloo_advantages(rewards),
        rewards=rewards,
        sampled_log_p=log_p,
        reference_log_p=log_p - 0.1 * is_target,
        n_supervised=ROWS,
    )


@dataclass(frozen=True)
class Case:
    """An objective, the model that it trains, and a batch of its kind."""

    objective: Callable[[], Any]
    model: Callable[[], Any]
    batch: Callable[[], Batch]


def decoder(seed: int = 0) -> Any:
    return build(VARIANTS["busy head"], seed=seed)


def _classifier() -> Classified:
    torch.manual_seed(0)
    return Classified(build(ENCODERS["rotary"]))


def _distillation(**options: Any) -> Distillation:
    return Distillation(decoder(3), **{"temperature": 2.0, "hard_weight": 0.3, **options})


SINGLE = torch.tensor([0, 2, 1, 2])
MULTIPLE = torch.tensor([[1.0, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0]])
FULL = {"label_smoothing": 0.1, "z_loss": 0.01, "entropy_bonus": 0.05}

CASES: dict[str, Case] = {
    "next token": Case(lambda: NextToken(**FULL), decoder, token_batch),
    "masked tokens": Case(MLM, lambda: build(ENCODERS["bert"]), padded_batch),
    "pairs": Case(lambda: Seq2Seq(**FULL), lambda: build(PAIRS["t5"]), pair_batch),
    "classes": Case(
        lambda: Classification(label_smoothing=0.1), _classifier, lambda: label_batch(SINGLE)
    ),
    "yes or no": Case(
        lambda: Classification(multi_label=True), _classifier, lambda: label_batch(MULTIPLE)
    ),
    "forward": Case(lambda: _distillation(divergence="forward"), decoder, token_batch),
    "reverse": Case(lambda: _distillation(divergence="reverse"), decoder, token_batch),
    "between": Case(lambda: _distillation(divergence="jensen_shannon"), decoder, token_batch),
    "soft alone": Case(
        lambda: _distillation(divergence="forward", hard_weight=0.0), decoder, token_batch
    ),
    "hard alone": Case(
        lambda: _distillation(divergence="forward", hard_weight=1.0), decoder, token_batch
    ),
    "preference": Case(
        lambda: DPO(frozen_reference(decoder(2)), beta=0.1, label_smoothing=0.1),
        decoder,
        preference_batch,
    ),
    "hinge": Case(
        lambda: DPO(frozen_reference(decoder(2)), beta=0.01, loss="hinge"),
        decoder,
        preference_batch,
    ),
    "policy": Case(
        lambda: PolicyGradient(beta=0.1, kl="in_reward", entropy_bonus=0.01), decoder, rollout_batch
    ),
    "policy k2": Case(
        lambda: PolicyGradient(
            beta=0.1, kl="k2", reference=frozen_reference(decoder(2)), temperature=2.0
        ),
        decoder,
        rollout_batch,
    ),
    "policy k3": Case(lambda: PolicyGradient(beta=0.1, kl="k3"), decoder, rollout_batch),
}


def in_float32(batch: Batch) -> Any:
    """The batch with narrower numbers."""
    return batch.map_tensors(lambda x: x.float() if x.is_floating_point() else x)


def gradients(case: Case, batches: list[Any]) -> tuple[Tensor, list[Tensor]]:
    """The losses of some batches, added up, and the gradients of a fresh model."""
    model, objective = case.model(), case.objective()
    total = torch.zeros((), dtype=torch.float64)
    for batch in batches:
        loss = objective(model, batch).total
        loss.backward()
        total += loss.detach()
    return total, [p.grad for p in model.parameters() if p.grad is not None]
