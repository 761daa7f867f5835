"""Answers that the model draws itself, and what they are worth.

Comes in: prepared prompts, a reward, a reference. Goes out: a task whose batches are drawn from the
model as it stands. It does not know how the reward is found.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from pellucid import config
from pellucid.batches import IGNORED, LanguageModel, RolloutBatch
from pellucid.errors import ConfigError
from pellucid.examples import Bucketed, Examples, PromptBatch, PromptTexts, in_turn
from pellucid.generation import Continuation, Sampling, generate_after
from pellucid.objectives import (
    LazyLogits,
    Reference,
    asked,
    assemble,
    assemble_advantages,
    at_rest,
    token_log_p,
)
from pellucid.runs.plan import find_precision
from pellucid.runs.tasks.judging import some_of
from pellucid.runs.tasks.preferring import answered
from pellucid.runs.tasks.read import facts_of_examples
from pellucid.runs.tasks.references import reference_of
from pellucid.runs.tasks.task import Given, Reward, Task
from pellucid.training import HeldOut, Precision, autocast
from pellucid.typed import to_list


def rewarded(given: Given) -> Task:
    """Several answers to each prompt; judged by the reward, less what the leash costs.

    `batch_size` counts answers, so each update draws for `batch_size / n_samples` prompts.
    """
    run, data = given.run, given.examples
    assert isinstance(run.objective, config.PolicyGradient)
    n_samples, rows = run.objective.n_samples, run.training.batch_size
    if rows % n_samples:
        raise ConfigError(
            f"training.batch_size counts answers, and must be a multiple of objective.n_samples: "
            f"was {rows} and {n_samples}"
        )
    drawing = Drawing(given, reference_of(given))
    order = Bucketed(data.train, PromptTexts(), rows_at_once=rows // n_samples, seed=run.seed)

    def batch(position: int, n: int) -> RolloutBatch:
        prompts = order.batch(position // n_samples, n // n_samples)
        return drawing.batch(prompts, position)

    def judge(side: Examples, precision: Precision) -> HeldOut:
        del precision  # answers are drawn and rewarded as while it trains
        return drawing.judged(side)

    few = some_of(data.held_out, "prompt", run.training.evaluate_tokens)
    return Task(
        objective=assemble(run.objective, reference=drawing.reference),
        batch=batch,
        rows_per_epoch=order.rows_per_epoch * n_samples,
        tokens_per_row=order.tokens_per_row + run.objective.max_new_tokens,
        evaluate=lambda precision: judge(few, precision),
        sample=lambda step: answered(given, few, step),
        guessing_nats=None,
        unit="answers",
        facts=facts_of_examples(given),
        judge=judge,
    )


class Drawing:
    """Draws answers from a model, asks what they are worth, and compares with the reference."""

    def __init__(self, given: Given, reference: Reference) -> None:
        objective = given.run.objective
        assert isinstance(objective, config.PolicyGradient)
        assert given.reward is not None
        self.given = given
        self.objective = objective
        self.reference = reference
        self.reward: Reward = given.reward
        self.advantages = assemble_advantages(objective)
        device = given.model.device
        self.precision: Precision = find_precision(given.run.training.precision, device)

    def batch(self, prompts: PromptBatch, position: int) -> RolloutBatch:
        """Several answers to each prompt, drawn by numbers that depend on `position` alone."""
        n_samples = self.objective.n_samples
        ids = [list(prompt) for prompt in prompts.ids for _ in range(n_samples)]
        texts = [text for text in prompts.texts for _ in range(n_samples)]
        answers = self._drawn(ids, position)
        rewards = torch.tensor(self._rewards(texts, answers))
        tokens, targets = self._rows(ids, answers)
        sampled, reference = self._log_p(tokens, targets)
        worth = rewards
        if self.objective.kl == "in_reward":
            leash = (sampled - reference).sum(-1).cpu()
            worth = rewards - self.objective.beta * leash
        advantages = self.advantages(worth.view(-1, n_samples)).flatten()
        return RolloutBatch(
            ids=tokens,
            targets=targets,
            advantages=advantages,
            rewards=rewards,
            sampled_log_p=sampled.cpu(),
            reference_log_p=reference.cpu(),
            n_supervised=len(ids),
        )

    def judged(self, side: Examples) -> HeldOut:
        """One answer to each prompt: the mean reward, and how far the model has gone for it."""
        rewards: list[float] = []
        leash: list[float] = []
        for place, prompts in enumerate(
            in_turn(side, PromptTexts(), self.given.run.training.batch_size)
        ):
            ids = [list(prompt) for prompt in prompts.ids]
            answers = self._drawn(ids, -1 - place)
            rewards += self._rewards(prompts.texts, answers)
            sampled, reference = self._log_p(*self._rows(ids, answers))
            leash += to_list((sampled - reference).sum(-1))
        reward, kl = float(np.mean(rewards)), float(np.mean(leash))
        return HeldOut(
            loss_nats=self.objective.beta * kl - reward,
            over=len(rewards),
            unit="prompts",
            measures={"reward": reward, "kl_k1": kl},
        )

    def _drawn(self, ids: list[list[int]], position: int) -> list[Continuation]:
        how = Sampling(
            max_new_tokens=self.objective.max_new_tokens,
            temperature=self.objective.temperature,
            seed=int(
                np.random.SeedSequence([self.given.run.seed, position % 2**63]).generate_state(1)[0]
            ),
        )
        with at_rest(self.given.model):
            return generate_after(self.given.model, self.given.tokenizer, ids, how)

    def _rewards(self, texts: Sequence[str], answers: Sequence[Continuation]) -> list[float]:
        return [
            self.reward(json.loads(text), answer.text)
            for text, answer in zip(texts, answers, strict=True)
        ]

    def _rows(
        self, prompts: list[list[int]], answers: Sequence[Continuation]
    ) -> tuple[Tensor, Tensor]:
        """Prompts with answers as rows of ids, and the drawn tokens as their targets."""
        end = self.given.tokenizer.end_id
        drawn = [[*a.ids, *([end] if a.stopped == "end" else [])] for a in answers]
        width = max(len(p) + len(d) for p, d in zip(prompts, drawn, strict=True))
        ids = torch.full((len(prompts), width), end)
        targets = torch.full((len(prompts), width), IGNORED)
        for row, (prompt, answer) in enumerate(zip(prompts, drawn, strict=True)):
            ids[row, : len(prompt) + len(answer)] = torch.tensor(prompt + answer)
            targets[row, len(prompt) - 1 : len(prompt) + len(answer) - 1] = torch.tensor(answer)
        return ids, targets

    def _log_p(self, ids: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Of the drawn tokens, under the model as it stands and under the reference."""
        model = self.given.model
        with at_rest(model):
            sampled = self._of(model, ids, targets)
        with asked(self.reference, model) as other:
            return sampled, self._of(other, ids, targets)

    def _of(self, model: LanguageModel, ids: Tensor, targets: Tensor) -> Tensor:
        device = self.given.model.device
        with autocast(device, self.precision):
            hidden = model.hidden_states(ids.to(device))
            lazy = LazyLogits.of(model, hidden, temperature=self.objective.temperature)
            return token_log_p(lazy, targets.to(device).flatten()).view_as(targets)
