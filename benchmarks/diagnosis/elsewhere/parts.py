"""The pieces of a loop that people write themselves, as they are when nothing is wrong.

Comes in: a batch, a model, a loop. Goes out: what the piece returns. A fault puts another piece in
the place of one of these; a style of loop calls those that its users write. It knows neither.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.diagnosis.elsewhere.texts import MASK, PAD, VOCAB, Example

Batch = dict[str, Tensor]
UPDATES, ROWS = 150, 8
_MASKED, _IGNORED = 0.15, -100
#: Ids below it spell one byte.
SINGLE = 200


@dataclass
class Loop:
    """A loop that runs: what a piece may reach. `update` counts from 0."""

    parts: Parts
    model: nn.Module
    optimizer: Any
    schedule: Any
    task: str
    update: int = 0
    kept: dict[str, Any] = field(default_factory=dict[str, Any])


def padded(rows: list[list[int]], value: int = PAD) -> Tensor:
    """Rows of one length, filled up on the right."""
    length = max(map(len, rows))
    return torch.tensor([[*row, *[value] * (length - len(row))] for row in rows])


def joined(rows: list[Example], task: str) -> Batch:
    """A batch in the form that the models of transformers take."""
    ids = padded([row["ids"] for row in rows])
    batch = {"input_ids": ids, "attention_mask": (ids != PAD).long()}
    match task:
        case "classify":
            batch["labels"] = torch.tensor([row["label"] for row in rows])
        case "seq2seq":
            batch["labels"] = padded([row["target"] for row in rows], _IGNORED)
        case "mlm":
            chosen = (torch.rand(ids.shape) < _MASKED) & (ids > MASK)
            batch["labels"] = ids.masked_fill(~chosen, _IGNORED)
            batch["input_ids"] = ids.masked_fill(chosen, MASK)
        case _:
            batch["labels"] = ids.masked_fill(ids == PAD, _IGNORED)
    return batch


def shifted(rows: list[Example], task: str) -> Batch:
    """A batch of windows and the tokens that follow, for loops that compute their own loss."""
    del task
    ids = torch.tensor([row["ids"] for row in rows])
    return {"x": ids[:, :-1], "y": ids[:, 1:]}


def own_loss(loop: Loop, batch: Batch) -> Tensor:
    """The loss that the model computes."""
    return loop.model(**batch).loss


def cross_entropy(loop: Loop, batch: Batch) -> Tensor:
    """The cross-entropy of logits and shifted targets."""
    logits = loop.model(batch["x"]).logits
    return F.cross_entropy(logits.reshape(-1, VOCAB), batch["y"].reshape(-1))


def adamw(model: nn.Module, **changes: Any) -> torch.optim.Optimizer:
    """AdamW without decay of gains and biases."""
    trained = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trained if p.ndim > 1], "weight_decay": 0.1},
        {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, **({"lr": 3e-3, "betas": (0.9, 0.95)} | changes))


def warm_and_fall(update: int) -> float:
    """The share of the full rate: 15 updates of warm-up, then a straight line."""
    return min((update + 1) / 15, max(0.1, 1 - update / UPDATES))


def scheduled(optimizer: torch.optim.Optimizer) -> Any:
    """The schedule of an optimiser."""
    return torch.optim.lr_scheduler.LambdaLR(optimizer, warm_and_fall)


def back(loop: Loop, loss: Tensor) -> None:
    """The backward pass of a micro-batch."""
    (loss / loop.parts.micro).backward()


def clipped(loop: Loop) -> None:
    """What happens to gradients before the step."""
    nn.utils.clip_grad_norm_(loop.model.parameters(), 1.0)


def stepped(loop: Loop) -> None:
    """The step of the optimiser."""
    loop.optimizer.step()


def advanced(loop: Loop) -> None:
    """The step of the schedule, once an update."""
    loop.schedule.step()


def cleared(loop: Loop) -> None:
    """The gradients are cleared, after the step."""
    loop.optimizer.zero_grad()


def drawn(rows: list[Example], update: int, draws: torch.Generator) -> list[int]:
    """Which rows an update takes, by lot."""
    del update
    return torch.randint(len(rows), (ROWS,), generator=draws).tolist()


def nothing(*_: Any) -> None:
    """Nothing."""


def frozen_copy(model: nn.Module) -> nn.Module:
    """The model as it is now."""
    return copy.deepcopy(model).eval().requires_grad_(False)


def share_of_common(answers: list[list[int]]) -> list[float]:
    """The share of tokens among the first ones of the vocabulary, which are single letters."""
    return [
        sum(MASK < token < SINGLE for token in answer) / max(1, len(answer)) for answer in answers
    ]


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a loop is made of.

    `config` changes the model's config, `tuned` the model. `prepared` changes the examples before
    they are drawn, `drawn` says which of them an update takes. `micro` parts make an update.
    `between` comes after each update. `reference` is made of the model before its first update,
    `rewarded` says what answers are worth. `options` are those of a trainer.
    """

    config: dict[str, Any] = field(default_factory=dict[str, Any])
    tuned: Callable[[nn.Module], Any] = nothing
    prepared: Callable[[list[Example]], list[Example]] = lambda rows: rows
    drawn: Callable[[list[Example], int, torch.Generator], list[int]] = drawn
    joined: Callable[[list[Example], str], Batch] = joined
    loss: Callable[[Loop, Batch], Tensor] = own_loss
    optimizer: Callable[[nn.Module], torch.optim.Optimizer] = adamw
    scheduled: Callable[[torch.optim.Optimizer], Any] = scheduled
    micro: int = 1
    autocast: torch.dtype | None = None
    back: Callable[[Loop, Tensor], Any] = back
    clipped: Callable[[Loop], Any] = clipped
    stepped: Callable[[Loop], Any] = stepped
    advanced: Callable[[Loop], Any] = advanced
    cleared: Callable[[Loop], Any] = cleared
    between: Callable[[Loop], Any] = nothing
    reference: Callable[[nn.Module], nn.Module] = frozen_copy
    rewarded: Callable[[list[list[int]]], list[float]] = share_of_common
    updates: int = UPDATES
    options: dict[str, Any] = field(default_factory=dict[str, Any])

    def changed(self, other: Parts) -> set[str]:
        """The names of the pieces that differ."""
        return {
            part.name
            for part in fields(self)
            if getattr(self, part.name) != getattr(other, part.name)
        }
