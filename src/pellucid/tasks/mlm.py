"""Predicting the masked tokens of a text."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy.typing as npt

from pellucid import config
from pellucid.batches import Batch
from pellucid.data import Examples, masked_batches, masked_windows, masking_for, rings_of
from pellucid.evaluation.objective import evaluate_objective
from pellucid.objectives import assemble
from pellucid.tasks.data_summary import summarise_data
from pellucid.tasks.example_view import readable_decoder, view_example
from pellucid.tasks.task import Task, TaskInputs

#: The seed of the masks of held-out text: every evaluation of every run has the same.
HELD_OUT_SEED = 0


def mlm_task(inputs: TaskInputs) -> Task:
    """Windows of a text with some tokens masked; evaluated by nats per masked token."""
    run = inputs.run
    assert isinstance(run.objective, config.MLM)
    masking = masking_for(
        inputs.tokenizer,
        chosen=run.objective.chosen,
        masked=run.objective.masked,
        replaced=run.objective.replaced,
        whole_words=run.objective.whole_words,
    )
    length, documents_apart = run.model.context_length, run.training.documents_apart

    def starts(side: Examples) -> npt.NDArray[Any] | None:
        return side.starts if documents_apart else None

    train, held_out = inputs.data.train, inputs.data.held_out
    order = masked_batches(
        train.tokens,
        masking,
        context_length=length,
        seed=run.seed,
        documents=starts(train),
        rings=rings_of(run.text, inputs.data),
    )

    def windows() -> Iterator[Batch]:
        return masked_windows(
            held_out.tokens[: run.training.evaluate_tokens],
            masking,
            context_length=length,
            batch_size=run.training.batch_size,
            seed=HELD_OUT_SEED,
            documents=starts(held_out),
        )

    objective = assemble(run.objective)
    return Task(
        objective=objective,
        batch=order.batch,
        rows_per_epoch=order.rows_per_epoch,
        tokens_per_row=order.tokens_per_row,
        evaluate=lambda precision: evaluate_objective(
            objective, inputs.model, windows(), precision, unit="tokens"
        ),
        sample=lambda _: None,
        guessing_nats=math.log(run.model.rows),
        facts=summarise_data(inputs),
        example=view_example(order.batch(0, 1), readable_decoder(inputs.tokenizer), causal=False),
    )
