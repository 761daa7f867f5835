"""Answers that a model samples, and their KL from the reference: the model at the start."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pellucid.batches import IGNORED
from pellucid.checkpoints import load_model_tensors
from pellucid.data import Examples, in_turn
from pellucid.errors import PellucidError
from pellucid.generation import Continuation, Sampling, generate_after, not_refused
from pellucid.model import Transformer, adapters, assemble, without_adapters
from pellucid.objectives import (
    LazyLogits,
    Reference,
    evaluating,
    frozen_reference,
    open_reference,
    token_divergence,
    token_log_p,
)
from pellucid.saved_runs.load import fill
from pellucid.tasks.task import TaskInputs
from pellucid.tokenizers import Tokenizer
from pellucid.training import Precision, autocast
from pellucid.training.kernels import attend_by, kernel_of
from pellucid.typed import to_list

Prompt = list[int]


@dataclass(frozen=True, slots=True, eq=False)
class ComparedRollouts:
    """Answers under the model and under its reference.

    Attributes:
        ids: prompts with their answers, (answers, time).
        targets: the sampled tokens, (answers, time); `IGNORED` elsewhere.
        log_p: log P of the sampled tokens under the model, (answers, time); 0 elsewhere.
        reference_log_p: the same under the reference.
        kl: KL(model || reference) in nats, (answers,): over the vocabulary, summed over tokens.
    """

    ids: Tensor
    targets: Tensor
    log_p: Tensor
    reference_log_p: Tensor
    kl: Tensor


class RolloutSampler:
    """Samples answers by a seed that depends on the run's seed and a position alone."""

    def __init__(
        self,
        model: Transformer,
        tokenizer: Tokenizer,
        reference: Reference,
        *,
        temperature: float,
        seed: int,
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.reference = reference
        self.temperature = temperature
        self.seed = seed

    def sample(self, prompts: list[Prompt], position: int, longest: int) -> list[Continuation]:
        """An answer to each prompt: a function of the weights, the seed and `position`.

        Args:
            prompts: the token ids of each prompt.
            position: a place in the data.
            longest: the most tokens of an answer; the context may hold fewer.
        """
        room = self.model.context_length - max(len(prompt) for prompt in prompts)
        state = np.random.SeedSequence([self.seed, position % 2**63]).generate_state(1)
        sampling = Sampling(
            max_new_tokens=min(longest, room), temperature=self.temperature, seed=int(state[0])
        )
        with evaluating(self.model), not_refused():
            return generate_after(self.model, self.tokenizer, prompts, sampling)

    def encode(self, answer: str, prompt: Prompt) -> Continuation:
        """An answer as if the model had sampled it, with the token that ends a text.

        Args:
            answer: the answer.
            prompt: the token ids of its prompt.

        Raises:
            PellucidError: prompt and answer together are longer than the context.
        """
        ids, room = self.tokenizer.encode(answer), self.model.context_length - len(prompt)
        if len(ids) >= room:
            raise PellucidError(
                f"the answer has {len(ids):,} tokens, but behind this prompt the context has room "
                f"for {max(room - 1, 0):,}: shorten one of them"
            )
        return Continuation(answer, tuple(ids), "end", (0.0,) * len(ids))

    def compare(
        self, prompts: list[Prompt], answers: Sequence[Continuation], precision: Precision
    ) -> ComparedRollouts:
        """Compare the model with the reference on answers, both in evaluation mode.

        Args:
            prompts: the token ids of each prompt.
            answers: the answers, as `sample` returned them.
            precision: the type of matrix products.
        """
        ids, targets = self._rows(prompts, answers)
        device = self.model.device
        device_ids, flat = ids.to(device), targets.to(device).flatten()

        def lazy(model: Transformer) -> LazyLogits:
            return LazyLogits.from_model(
                model, model.hidden_states(device_ids), temperature=self.temperature
            )

        with evaluating(self.model), autocast(device, precision):
            policy_logits = lazy(self.model)
            log_p = token_log_p(policy_logits, flat)
        with (
            open_reference(self.reference, self.model) as reference_model,
            autocast(device, precision),
        ):
            reference_logits = lazy(reference_model)
            reference_log_p = token_log_p(reference_logits, flat)
            kl = token_divergence(policy_logits, reference_logits, flat, divergence="reverse")
        return ComparedRollouts(
            ids=ids,
            targets=targets,
            log_p=log_p.view_as(targets).cpu(),
            reference_log_p=reference_log_p.view_as(targets).cpu(),
            kl=kl.view_as(targets).sum(-1).cpu(),
        )

    def _rows(
        self, prompts: list[Prompt], answers: Sequence[Continuation]
    ) -> tuple[Tensor, Tensor]:
        end = self.tokenizer.end_id
        sampled = [[*a.ids, *([end] if a.stopped == "end" else [])] for a in answers]
        width = max(len(p) + len(d) for p, d in zip(prompts, sampled, strict=True))
        ids = torch.full((len(prompts), width), end)
        targets = torch.full((len(prompts), width), IGNORED)
        for row, (prompt, answer) in enumerate(zip(prompts, sampled, strict=True)):
            ids[row, : len(prompt) + len(answer)] = torch.tensor(prompt + answer)
            targets[row, len(prompt) - 1 : len(prompt) + len(answer) - 1] = torch.tensor(answer)
        return ids, targets

    def mean_kl(self, examples: Examples, n_rows: int, longest: int, precision: Precision) -> float:
        """The mean KL of one sampled answer to each prompt, in nats.

        Args:
            examples: the prompts.
            n_rows: how many to answer at once.
            longest: the most tokens of an answer.
            precision: the type of matrix products.
        """
        kls: list[float] = []
        for place, prompts in enumerate(in_turn(examples, _Prompts(), n_rows)):
            answers = self.sample(prompts, -1 - place, longest)
            kls += to_list(self.compare(prompts, answers, precision).kl)
        return float(np.mean(kls))


class _Prompts:
    """The column "prompt" as lists of ids."""

    def lengths(self, examples: Examples) -> npt.NDArray[np.int64]:
        return examples.columns["prompt"].lengths

    def batch(self, examples: Examples, chosen: npt.NDArray[np.int64]) -> list[Prompt]:
        return [examples.columns["prompt"][int(place)].tolist() for place in chosen]


def reference_model(inputs: TaskInputs) -> Reference:
    """The model of the start: the trained model without its adapters if it has any, else a copy.

    With adapters one model is in memory, and without them two.
    """
    if adapters(inputs.model):
        return _disable_adapters
    with torch.device("meta"):
        copy = assemble(inputs.run.model, seed=0)
    fill(copy, load_model_tensors(inputs.folder.start), inputs.model.device)
    # the same rounding, so that both models are equal at the start
    attend_by(copy, kernel_of(inputs.model))
    return frozen_reference(copy.eval().requires_grad_(False))


@contextmanager
def _disable_adapters(model: Transformer) -> Generator[Transformer]:
    with without_adapters(model):
        yield model
