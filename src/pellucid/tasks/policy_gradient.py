"""Answers that the model draws itself, and what they are worth.

Comes in: prepared prompts, a reward, a reference. Goes out: a task whose batches are drawn from the
model as it stands. It does not know how the reward is found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import torch

from pellucid import config
from pellucid.batches import RolloutBatch
from pellucid.data import Bucketed, Examples, PromptBatch, PromptTexts, in_turn
from pellucid.errors import ConfigError
from pellucid.generation import Continuation
from pellucid.objectives import assemble, assemble_advantages
from pellucid.reader import parse_json
from pellucid.saved_runs.machine import find_precision
from pellucid.tasks.data_summary import facts_of_examples
from pellucid.tasks.held_out_loss import some_of
from pellucid.tasks.prompt_sample import Asking
from pellucid.tasks.reference import copied, reference_of
from pellucid.tasks.rollouts import Drawer
from pellucid.tasks.task import Reward, Task, TaskInputs
from pellucid.training import HeldOut, Precision
from pellucid.typed import to_list

T = TypeVar("T")


def rewarded(given: TaskInputs) -> Task:
    """Several answers to each prompt; judged by the reward, less what the leash costs.

    `batch_size` counts answers, so each update draws for `batch_size / n_samples` prompts.
    """
    run, data = given.run, given.examples
    assert isinstance(run.objective, config.PolicyGradient)
    assert given.reward is not None
    n_samples, rows = run.objective.n_samples, run.training.batch_size
    if rows % n_samples:
        raise ConfigError(
            f"training.batch_size counts answers, and must be a multiple of objective.n_samples: "
            f"was {rows} and {n_samples}"
        )
    drawer = Drawer(
        given.model,
        given.tokenizer,
        reference_of(given),
        temperature=run.objective.temperature,
        seed=run.seed,
    )
    rollouts = Rollouts(run.objective, drawer, given.reward)
    order = Bucketed(data.train, PromptTexts(), rows_at_once=rows // n_samples, seed=run.seed)
    precision = find_precision(run.training.precision, given.model.device)

    drawn: dict[tuple[int, int], RolloutBatch] = {}

    def batch(position: int, n: int) -> RolloutBatch:
        # asked for by who watches, too: a reward is somebody's code, and is called as often as ever
        if (position, n) not in drawn:
            prompts = order.batch(position // n_samples, n // n_samples)
            rollout_batch = rollouts.batch(prompts, position, precision)
            drawn.clear()
            drawn[position, n] = rollout_batch
        return drawn[position, n]

    def judge(side: Examples, precision: Precision) -> HeldOut:
        return rollouts.judged(side, rows, precision)

    few = some_of(data.held_out, "prompt", run.training.evaluate_tokens)
    asking = Asking(given)
    return Task(
        objective=assemble(run.objective, reference=drawer.reference),
        batch=batch,
        rows_per_epoch=order.rows_per_epoch * n_samples,
        tokens_per_row=order.tokens_per_row + run.objective.max_new_tokens,
        evaluate=lambda precision: judge(few, precision),
        sample=lambda step: asking.answered(few.columns["prompt"][0].tolist(), step),
        guessing_nats=None,
        unit="answers",
        facts=(*facts_of_examples(given), ("reward", given.reward.name)),
        asked=copied(given),
        judge=judge,
    )


class Rollouts:
    """Answers drawn from a model, with what they are worth."""

    def __init__(self, objective: config.PolicyGradient, drawer: Drawer, reward: Reward) -> None:
        self.objective = objective
        self.drawer = drawer
        self.reward = reward
        self.advantages = assemble_advantages(objective)

    def batch(self, prompts: PromptBatch, position: int, precision: Precision) -> RolloutBatch:
        """Several answers to each prompt, drawn by numbers that depend on `position` alone."""
        n_samples = self.objective.n_samples
        repeated = PromptBatch(
            ids=_repeated(prompts.ids, n_samples),
            texts=_repeated(prompts.texts, n_samples),
            rows=_repeated(prompts.rows, n_samples),
        )
        ids = [list(prompt) for prompt in repeated.ids]
        answers = self.drawer.draw(ids, position, self.objective.max_new_tokens)
        rewards = torch.tensor(self._rewards(repeated, answers))
        compared = self.drawer.compare(ids, answers, precision)
        worth = rewards
        if self.objective.kl == "in_reward":
            leash = (compared.log_p - compared.reference_log_p).sum(-1)
            worth = rewards - self.objective.beta * leash
        return RolloutBatch(
            ids=compared.ids,
            targets=compared.targets,
            advantages=self.advantages(worth.view(-1, n_samples)).flatten(),
            rewards=rewards,
            sampled_log_p=compared.log_p,
            reference_log_p=compared.reference_log_p,
            n_supervised=len(ids),
        )

    def judged(self, side: Examples, n_rows: int, precision: Precision) -> HeldOut:
        """One answer to each prompt: the mean reward, and how far the model has gone for it."""
        rewards: list[float] = []
        moved: list[float] = []
        lengths: list[int] = []
        for place, prompts in enumerate(in_turn(side, PromptTexts(), n_rows)):
            ids = [list(prompt) for prompt in prompts.ids]
            answers = self.drawer.draw(ids, -1 - place, self.objective.max_new_tokens)
            rewards += self._rewards(prompts, answers)
            moved += to_list(self.drawer.compare(ids, answers, precision).kl)
            lengths += [len(answer.ids) for answer in answers]
        reward, kl = float(np.mean(rewards)), float(np.mean(moved))
        return HeldOut(
            loss_nats=self.objective.beta * kl - reward,
            over=len(rewards),
            unit="prompts",
            measures={
                "reward": reward,
                "kl_exact": kl,
                "tokens_per_answer": float(np.mean(lengths)),
            },
        )

    def _rewards(self, prompts: PromptBatch, answers: Sequence[Continuation]) -> list[float]:
        return [
            self._worth(row, text, answer.text)
            for row, text, answer in zip(prompts.rows, prompts.texts, answers, strict=True)
        ]

    def _worth(self, row: int, text: str, answer: str) -> float:
        try:
            return self.reward(parse_json(text, f"row {row}", lenient=True), answer)
        except ConfigError as error:
            raise ConfigError(f"row {row}: {error}") from error.__cause__


def _repeated(entries: tuple[T, ...], n: int) -> tuple[T, ...]:
    return tuple(entry for entry in entries for _ in range(n))
