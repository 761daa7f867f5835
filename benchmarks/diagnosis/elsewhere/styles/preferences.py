"""Loops in plain torch that learn from pairs of answers, or from rewards of their own answers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.diagnosis.elsewhere.parts import Batch, Loop, Parts, adamw, drawn, padded
from benchmarks.diagnosis.elsewhere.styles.plain import train
from benchmarks.diagnosis.elsewhere.styles.style import BUILT, IN_THE_LOOP, Style
from benchmarks.diagnosis.elsewhere.texts import PAD, Example

BETA, ANSWERS, NEW_TOKENS = 0.1, 4, 8
_EVERYTHING = BUILT | IN_THE_LOOP | {"reference", "rewarded"}


def pairs(rows: list[Example], task: str) -> Batch:
    """The chosen answers and below them the rejected ones, each behind its prompt."""
    del task
    ids = padded([row["prompt"] + row[name] for name in ("chosen", "rejected") for row in rows])
    length = torch.tensor([len(row["prompt"]) for row in rows] * 2)
    answers = (torch.arange(ids.shape[1]) >= length[:, None]) & (ids != PAD)
    return {"ids": ids, "mask": (ids != PAD).long(), "answers": answers}


def reward_loss(loop: Loop, batch: Batch) -> Tensor:
    """How little the chosen answer's reward is above that of the rejected one."""
    rewards = loop.model(input_ids=batch["ids"], attention_mask=batch["mask"]).logits[:, 0]
    chosen, rejected = rewards.chunk(2)
    return -F.logsigmoid(chosen - rejected).mean()


def answer_log_p(model: nn.Module, batch: Batch) -> Tensor:
    """The log-probability of each row's answer."""
    logits = model(input_ids=batch["ids"], attention_mask=batch["mask"]).logits[:, :-1]
    log_p = logits.float().log_softmax(-1).gather(2, batch["ids"][:, 1:, None])[..., 0]
    return (log_p * batch["answers"][:, 1:]).sum(1)


def dpo_loss(loop: Loop, batch: Batch, beta: float = BETA) -> Tensor:
    """The loss of direct preference optimisation."""
    with torch.no_grad():
        before = answer_log_p(loop.kept["reference"], batch)
    chosen, rejected = (answer_log_p(loop.model, batch) - before).chunk(2)
    return -F.logsigmoid(beta * (chosen - rejected)).mean()


def prompts(rows: list[Example], task: str) -> Batch:
    """Prompts of one length, each as often as it is answered."""
    del task
    least = min(len(row["prompt"]) for row in rows)
    ids = torch.tensor([row["prompt"][:least] for row in rows])
    return {"ids": ids.repeat_interleave(ANSWERS, 0)}


def sampled(model: nn.Module, ids: Tensor, temperature: float = 1.0) -> Tensor:
    """The ids with answers behind them, drawn token by token."""
    for _ in range(NEW_TOKENS):
        logits = model(input_ids=ids).logits[:, -1].float() / temperature
        ids = torch.cat([ids, torch.multinomial(logits.softmax(-1), 1)], 1)
    return ids


def policy_loss(loop: Loop, batch: Batch, temperature: float = 1.0, sign: float = 1.0) -> Tensor:
    """The policy gradient with the advantage of an answer in its group."""
    model, length = loop.model, batch["ids"].shape[1]
    with torch.no_grad():
        whole = sampled(model, batch["ids"], temperature)
    rewards = torch.tensor(loop.parts.rewarded(whole[:, length:].tolist())).view(-1, ANSWERS)
    better = (rewards - rewards.mean(1, True)) / (rewards.std(1, keepdim=True) + 1e-4)
    log_p = model(input_ids=whole[:, :-1]).logits.float().log_softmax(-1)
    chosen = log_p.gather(2, whole[:, 1:, None])[:, length - 1 :, 0]
    return -(sign * better.view(-1, 1) * chosen).mean()


def _few(rows: list[Example], update: int, draws: torch.Generator) -> list[int]:
    """Four prompts."""
    del update
    return torch.randint(len(rows), (4,), generator=draws).tolist()


def _constant(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LambdaLR:
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda update: min(1.0, (update + 1) / 5))


TUNING = partial(adamw, lr=5e-4)
_GROUPS = Parts(
    drawn=_few,
    joined=prompts,
    loss=policy_loss,
    optimizer=TUNING,
    scheduled=_constant,
    updates=40,
)

REWARD = Style(
    name="reward-loop",
    split="tune",
    tasks={"reward": ("decoder", "encoder")},
    writes=_EVERYTHING,
    train=train,
    base=Parts(joined=pairs, loss=reward_loss),
)
POLICY = Style(
    name="grpo-loop",
    split="tune",
    tasks={"grpo": ("decoder",)},
    writes=_EVERYTHING,
    train=train,
    base=_GROUPS,
)
DPO = Style(
    name="dpo-loop",
    split="test",
    tasks={"dpo": ("decoder",)},
    writes=_EVERYTHING,
    train=train,
    base=replace(_GROUPS, drawn=drawn, joined=pairs, loss=dpo_loss, updates=80),
)
