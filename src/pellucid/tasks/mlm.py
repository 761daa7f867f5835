"""Giving back what is hidden of a text: single tokens to an encoder, spans to an encoder-decoder.

Comes in: prepared text. Goes out: a task. It does not know how it is hidden.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy.typing as npt

from pellucid import config
from pellucid.batches import Batch
from pellucid.data import (
    Shard,
    WindowBatches,
    masked_batches,
    masked_windows,
    masking_for,
    span_batches,
    span_windows,
    spans_for,
)
from pellucid.generation import encode
from pellucid.inference.sample import speak_after
from pellucid.objectives import assemble
from pellucid.tasks.example_view import example_of, spelled
from pellucid.tasks.held_out_loss import judged
from pellucid.tasks.next_token import facts_of_text
from pellucid.tasks.task import Task, TaskInputs
from pellucid.training import HeldOut, Precision, Sampled
from pellucid.typed import to_list

#: What is hidden of held-out text is the same at every evaluation, and for every run.
_HELD_OUT_SEED = 0
#: So much of it is shown while spans are learnt.
_SHOWN_TOKENS = 24


def unmasking(given: TaskInputs) -> Task:
    """Windows of a text with some tokens hidden; judged by nats per hidden token."""
    run = given.run
    assert isinstance(run.objective, config.MLM)
    masking = masking_for(
        given.tokenizer,
        chosen=run.objective.chosen,
        masked=run.objective.masked,
        replaced=run.objective.replaced,
        whole_words=run.objective.whole_words,
    )
    length, apart = run.model.context_length, run.training.documents_apart

    def starts(shard: Shard) -> npt.NDArray[Any] | None:
        return shard.starts if apart else None

    train, held_out = given.text.train, given.text.held_out
    order = masked_batches(
        train.tokens, masking, context_length=length, seed=run.seed, documents=starts(train)
    )

    def windows() -> Iterator[Batch]:
        return masked_windows(
            held_out.tokens[: run.training.evaluate_tokens],
            masking,
            context_length=length,
            batch_size=run.training.batch_size,
            seed=_HELD_OUT_SEED,
            documents=starts(held_out),
        )

    return _task(given, order, windows, lambda _: None)


def uncorrupting(given: TaskInputs) -> Task:
    """Windows of a text with spans cut out; judged by nats per token of what is written."""
    run = given.run
    assert isinstance(run.objective, config.SpanCorruption)
    spans = spans_for(
        given.tokenizer,
        corrupted=run.objective.corrupted,
        mean_span=run.objective.mean_span,
        start_id=given.tokenizer.begin_id,
    )
    length = run.model.context_length
    order = span_batches(given.text.train.tokens, spans, context_length=length, seed=run.seed)

    def windows() -> Iterator[Batch]:
        return span_windows(
            given.text.held_out.tokens[: run.training.evaluate_tokens],
            spans,
            context_length=length,
            batch_size=run.training.batch_size,
            seed=_HELD_OUT_SEED,
        )

    # a whole window would be a page to read; the model is shown as little as its user
    few = given.text.held_out.tokens[: min(_SHOWN_TOKENS, length)]
    example_batch = next(
        span_windows(few, spans, context_length=length, batch_size=1, seed=_HELD_OUT_SEED)
    )
    source = to_list(example_batch.source[0])
    spell = spelled(given.tokenizer)

    def sample(step: int) -> Sampled:
        model, tokenizer = given.model, given.tokenizer
        encoded_source = encode(model, [source])
        return speak_after(
            model,
            tokenizer,
            [tokenizer.begin_id],
            spell(source),
            step,
            encoded=encoded_source,
            spell=spell,
        )

    return _task(given, order, windows, sample)


def _task(
    task_inputs: TaskInputs,
    order: WindowBatches[Any],
    windows: Callable[[], Iterator[Batch]],
    sample: Callable[[int], Sampled | None],
) -> Task:
    run = task_inputs.run
    objective = assemble(run.objective)

    def evaluate(precision: Precision) -> HeldOut:
        return judged(objective, task_inputs.model, windows(), precision, unit="tokens")

    return Task(
        objective=objective,
        batch=order.batch,
        rows_per_epoch=order.rows_per_epoch,
        tokens_per_row=order.tokens_per_row,
        evaluate=evaluate,
        sample=sample,
        guessing_nats=math.log(run.model.rows),
        facts=tuple(facts_of_text(run.text, task_inputs.text, task_inputs.tokenizer)),
        example=example_of(order.batch(0, 1), spelled(task_inputs.tokenizer), causal=False),
    )
