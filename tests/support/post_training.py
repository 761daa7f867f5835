"""Loops in plain torch that learn from pairs, from rewards, or to answer, as people write them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid.diagnosis import Finding, diagnose, history_of_watch
from pellucid.model import assemble
from pellucid.vitals import Watch, watch
from support.watched import small, text, windows

#: Letters of a prompt and of an answer.
PROMPT, ANSWER = 12, 16


def new_model() -> nn.Module:
    """A tiny decoder; it returns logits (batch, time, vocab)."""
    return assemble(small(n_layers=2, dropout=0.0).model, seed=0)


@cache
def _trained() -> dict[str, Tensor]:
    model = new_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for step in range(120):
        batch = windows(text(), 16, 32, step)
        F.cross_entropy(model(batch.ids).flatten(0, 1), batch.targets.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.state_dict()


def policy() -> nn.Module:
    """A model that has learnt to write a little."""
    model = new_model()
    model.load_state_dict(_trained())
    return model


def answers(step: int, pairs: int = 4) -> tuple[Tensor, Tensor]:
    """Chosen answers, which are text, and rejected ones, which are noise, behind one prompt."""
    ids = windows(text(), pairs, PROMPT + ANSWER, step).ids
    draws = torch.Generator().manual_seed(step)
    noise = torch.randint(26, (pairs, ANSWER), generator=draws)
    return ids, torch.cat([ids[:, :PROMPT], noise], 1)


def log_p(model: nn.Module, ids: Tensor, start: int = PROMPT) -> Tensor:
    """log P of each row's tokens from `start` on."""
    log_ps = model(ids[:, :-1]).log_softmax(-1).gather(2, ids[:, 1:, None])[..., 0]
    return log_ps[:, start - 1 :].sum(1)


@dataclass(frozen=True)
class Loop:
    """A training from trained weights."""

    loss: Callable[[nn.Module, nn.Module, int, Watch], Tensor]
    rate: float = 3e-4
    updates: int = 60
    model: Callable[[], nn.Module] = policy
    reference: Callable[[nn.Module], nn.Module] = copy.deepcopy
    max_overhead: float | None = None

    def run(self) -> tuple[list[Finding], Watch]:
        """Train, watched; returns the findings, and the watch."""
        torch.manual_seed(0)
        model = self.model()
        reference = self.reference(model)
        if reference is not model:
            reference.eval()
        optimizer = torch.optim.AdamW(model.parameters(), lr=self.rate)
        with watch(model, optimizer, max_overhead=self.max_overhead, clip_norm=1.0) as w:
            for step in range(self.updates):
                for group in optimizer.param_groups:
                    group["lr"] = self.rate * min(1.0, (step + 1) / 5)
                loss = self.loss(model, reference, step, w)
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
                w.step(loss)
        return diagnose(history_of_watch(w)), w


# ---- pairs


def dpo(
    model: Any,
    reference: Any,
    step: int,
    w: Watch,
    *,
    beta: float = 0.1,
    swapped: bool = False,
    at_once: bool = True,
    pairs: int = 4,
) -> Tensor:
    """-log sigmoid of the margin, with both answers in one call or in two."""
    pair = answers(step, pairs)[:: -1 if swapped else 1]
    both_answers = torch.cat(pair)
    with torch.no_grad():
        before = log_p(reference, both_answers)
    after = (
        log_p(model, both_answers) if at_once else torch.cat([log_p(model, ids) for ids in pair])
    )
    good, bad = (after - before).chunk(2)
    return -F.logsigmoid(beta * (good - bad)).mean()


class Scorer(nn.Module):
    """A reward model: one number for each row."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.body = nn.Embedding(27, 16), nn.GRU(16, 16, batch_first=True)
        self.head = nn.Linear(16, 1)

    def forward(self, ids: Tensor) -> Tensor:
        """The scores (rows, 1)."""
        return self.head(self.body(self.embedding(ids))[0][:, -1])


def scorer() -> nn.Module:
    """A reward model with fixed first weights."""
    torch.manual_seed(0)
    return Scorer()


def compared(
    model: Any,
    reference: Any,
    step: int,
    w: Watch,
    *,
    length: int = PROMPT + ANSWER,
    pairs: int = 4,
    sign: float = 1.0,
) -> Tensor:
    """-log sigmoid of the difference of two scores, of rows that are cut to a length."""
    good, bad = model(torch.cat(answers(step, pairs))[:, :length])[:, 0].chunk(2)
    return -F.logsigmoid(sign * (good - bad)).mean()


# ---- answers

PAD, EOS, BOS = 27, 28, 29


class Named(nn.Module):
    """A reader whose config names its special tokens, as in transformers.

    If positions begin anew, it keeps the state of the document before.
    """

    def __init__(self, known: float = 0.0) -> None:
        super().__init__()
        self.known = known
        self.config = SimpleNamespace(
            model_type="named",
            pad_token_id=PAD,
            bos_token_id=BOS,
            eos_token_id=EOS,
            is_encoder_decoder=False,
        )
        self.embedding, self.body = nn.Embedding(30, 24), nn.GRU(24, 24, batch_first=True)
        self.head = nn.Linear(24, 30)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> Tensor:
        """The logits (rows, time, vocab), with the next tokens' raised by `known`."""
        logits = self.head(self.body(self.embedding(input_ids))[0])
        return logits + self.known * F.one_hot(input_ids.roll(-1, 1), 30)


def named(known: float = 0.0) -> nn.Module:
    """Such a model with fixed first weights."""
    torch.manual_seed(0)
    return Named(known)


def sft(
    model: Any,
    reference: Any,
    step: int,
    w: Watch,
    *,
    unpaid: int = PAD,
    template: int = 0,
    paid: slice = slice(None),
) -> Tensor:
    """Answers of different lengths, each with an end token and padding behind it."""
    ids = windows(text(), 8, PROMPT + ANSWER, step).ids.clone()
    ids[:, :template] = ids[0, :template]
    lengths = torch.arange(8) % 5 + PROMPT + 6
    places = torch.arange(ids.shape[1])
    ids = ids.masked_fill(places > lengths[:, None], PAD)
    ids[torch.arange(8), lengths] = EOS
    labels = ids[:, 1:].masked_fill((ids[:, 1:] == PAD) | (ids[:, 1:] == unpaid), -100)
    is_paid = torch.zeros_like(labels, dtype=torch.bool)
    is_paid[:, paid] = True
    labels = labels.masked_fill(~is_paid, -100)
    logits = model(ids, attention_mask=(ids != PAD).long())[:, :-1]
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def packed(
    model: Any,
    reference: Any,
    step: int,
    w: Watch,
    *,
    restarts: bool = False,
    pays_prompts: bool = False,
    ends: bool = True,
) -> Tensor:
    """Two texts a row, each with a start token, a prompt and an answer, and perhaps an end."""
    size = PROMPT + ANSWER
    ids = windows(text(), 8, 2 * size, step).ids.clone()
    ids[:, ::size] = BOS
    if ends:
        ids[:, size - 1 :: size] = EOS
    places = torch.arange(2 * size) % size
    call = {"position_ids": places.expand_as(ids)} if restarts else {}
    logits = model(ids, **call)[:, :-1]
    labels = ids if pays_prompts else ids.masked_fill(places < PROMPT, -100)
    return F.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten())


# ---- rewards


def write(model: Any, ids: Tensor, temperature: float = 1.0) -> Tensor:
    """The prompts with answers that the model draws."""
    for _ in range(ANSWER // 2):
        shares = (model(ids)[:, -1] / temperature).softmax(-1)
        ids = torch.cat([ids, torch.multinomial(shares, 1)], 1)
    return ids


def vowels(ids: Tensor) -> Tensor:
    """The share of vowels in each answer."""
    return (ids[:, PROMPT:, None] == torch.tensor([0, 4, 8, 14, 20])).any(-1).float().mean(1)


def grpo(
    model: Any,
    reference: Any,
    step: int,
    w: Watch,
    *,
    reward: Callable[[Tensor], Tensor] = vowels,
    temperature: float = 1.0,
    tiled: bool = False,
    start: int = PROMPT,
) -> Tensor:
    """The policy gradient with the advantages of four answers to each of four prompts."""
    prompts = windows(text(), 4, PROMPT, step).ids
    prompts = prompts.repeat(4, 1) if tiled else prompts.repeat_interleave(4, 0)
    with torch.no_grad():
        ids = write(model, prompts, temperature)
    rewards = reward(ids).view(4, 4)
    advantages = (rewards - rewards.mean(1, True)) / (rewards.std(1, keepdim=True) + 1e-4)
    return -(advantages.flatten() * log_p(model, ids, start) / ANSWER).mean()
