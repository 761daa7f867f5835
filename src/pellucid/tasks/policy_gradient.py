"""Policy gradient: the model answers prompts, a reward judges the answers, the model learns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import torch

from pellucid import config
from pellucid.batches import RolloutBatch
from pellucid.data import BucketedBatches, Examples, PromptBatch, PromptTexts, in_turn
from pellucid.errors import ConfigError
from pellucid.evaluation.objective import select_examples
from pellucid.generation import Continuation
from pellucid.objectives import assemble, assemble_advantages
from pellucid.reader import parse_json
from pellucid.saved_runs.machine import find_precision
from pellucid.tasks.data_summary import summarise_data
from pellucid.tasks.prompt_sample import PromptSampler
from pellucid.tasks.rollouts import RolloutSampler, reference_model
from pellucid.tasks.task import Reward, Task, TaskInputs
from pellucid.training import HeldOut, Precision
from pellucid.typed import to_list

T = TypeVar("T")


def policy_gradient_task(inputs: TaskInputs) -> Task:
    """Several answers to each prompt; evaluated by the reward, less the penalty on the KL.

    `batch_size` counts answers, so each update samples for `batch_size / n_samples` prompts.
    """
    run, data = inputs.run, inputs.data
    assert isinstance(run.objective, config.PolicyGradient)
    assert inputs.reward is not None
    n_samples, rows = run.objective.n_samples, run.training.batch_size
    if rows % n_samples:
        raise ConfigError(
            f"training.batch_size counts answers, and must be a multiple of objective.n_samples: "
            f"was {rows} and {n_samples}"
        )
    sampler = RolloutSampler(
        inputs.model,
        inputs.tokenizer,
        reference_model(inputs),
        temperature=run.objective.temperature,
        seed=run.seed,
    )
    rollouts = RewardedRollouts(run.objective, sampler, inputs.reward, inputs.answer)
    order = BucketedBatches(
        data.train, PromptTexts(), rows_at_once=rows // n_samples, seed=run.seed
    )
    precision = find_precision(run.training.precision, inputs.model.device)

    def batch(position: int, n: int) -> RolloutBatch:
        prompts = order.batch(position // n_samples, n // n_samples)
        return rollouts.batch(prompts, position, precision)

    def evaluate(examples: Examples, precision: Precision) -> HeldOut:
        return rollouts.evaluate(examples, rows, precision)

    held_out_examples = select_examples(data.held_out, "prompt", run.training.evaluate_tokens)
    prompt_sampler = PromptSampler(inputs)
    return Task(
        objective=assemble(run.objective, reference=sampler.reference),
        batch=batch,
        rows_per_epoch=order.rows_per_epoch * n_samples,
        tokens_per_row=order.tokens_per_row + run.objective.max_new_tokens,
        evaluate=lambda precision: evaluate(held_out_examples, precision),
        sample=lambda step: prompt_sampler.sample(
            held_out_examples.columns["prompt"][0].tolist(), step
        ),
        guessing_nats=None,
        unit="answers",
        facts=(*summarise_data(inputs), ("reward", inputs.reward.name)),
        evaluate_examples=evaluate,
    )


class RewardedRollouts:
    """Answers that a model samples, with their rewards; a given one comes first in a batch."""

    def __init__(
        self,
        objective: config.PolicyGradient,
        sampler: RolloutSampler,
        reward: Reward,
        answer: str | None = None,
    ) -> None:
        self.objective = objective
        self.sampler = sampler
        self.reward = reward
        self.answer = answer
        self.advantages = assemble_advantages(objective)

    def batch(self, prompts: PromptBatch, position: int, precision: Precision) -> RolloutBatch:
        """Several answers to each prompt, sampled by a seed that depends on `position` alone.

        Args:
            prompts: the prompts of an update.
            position: the place of the update in the data.
            precision: the type of matrix products.
        """
        n_samples = self.objective.n_samples
        repeated = PromptBatch(
            ids=_repeat(prompts.ids, n_samples),
            texts=_repeat(prompts.texts, n_samples),
            rows=_repeat(prompts.rows, n_samples),
        )
        ids = [list(prompt) for prompt in repeated.ids]
        answers = self.sampler.sample(ids, position, self.objective.max_new_tokens)
        if self.answer is not None:
            answers[0] = self.sampler.encode(self.answer, ids[0])
        rewards = torch.tensor(self._rewards(repeated, answers))
        comparison = self.sampler.compare(ids, answers, precision)
        values = rewards
        if self.objective.kl == "in_reward":
            kl = (comparison.log_p - comparison.reference_log_p).sum(-1)
            values = rewards - self.objective.beta * kl
        return RolloutBatch(
            ids=comparison.ids,
            targets=comparison.targets,
            advantages=self.advantages(values.view(-1, n_samples)).flatten(),
            rewards=rewards,
            sampled_log_p=comparison.log_p,
            reference_log_p=comparison.reference_log_p,
            n_supervised=len(ids),
        )

    def evaluate(self, examples: Examples, n_rows: int, precision: Precision) -> HeldOut:
        """One answer to each prompt: the mean reward, and the KL that the model paid for it.

        Args:
            examples: the prompts.
            n_rows: how many to answer at once.
            precision: the type of matrix products.
        """
        rewards: list[float] = []
        divergences: list[float] = []
        lengths: list[int] = []
        for place, prompts in enumerate(in_turn(examples, PromptTexts(), n_rows)):
            ids = [list(prompt) for prompt in prompts.ids]
            answers = self.sampler.sample(ids, -1 - place, self.objective.max_new_tokens)
            rewards += self._rewards(prompts, answers)
            divergences += to_list(self.sampler.compare(ids, answers, precision).kl)
            lengths += [len(answer.ids) for answer in answers]
        reward, kl = float(np.mean(rewards)), float(np.mean(divergences))
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
            self._reward_of(row, text, answer.text)
            for row, text, answer in zip(prompts.rows, prompts.texts, answers, strict=True)
        ]

    def _reward_of(self, row: int, text: str, answer: str) -> float:
        try:
            return self.reward(parse_json(text, f"row {row}", lenient=True), answer)
        except ConfigError as error:
            raise ConfigError(f"row {row}: {error}") from error.__cause__


def _repeat(entries: tuple[T, ...], n: int) -> tuple[T, ...]:
    return tuple(entry for entry in entries for _ in range(n))
