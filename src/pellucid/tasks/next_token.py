"""Predicting each token of a text from those before it."""

from __future__ import annotations

import math

from pellucid import config
from pellucid.batches import TokenBatch
from pellucid.data import PreparedData, WindowBatches, next_token_batches, rings_of
from pellucid.evaluation.held_out_text import evaluate_tokens, prefix
from pellucid.inference.sample import sample_sentence
from pellucid.objectives import Objective
from pellucid.tasks.data_summary import summarise_data
from pellucid.tasks.task import Task, TaskInputs
from pellucid.training import HeldOut, Precision


def next_token_task(inputs: TaskInputs, objective: Objective) -> Task:
    """Windows of a text; evaluated by nats per token and bits per byte."""
    run, model, tokenizer, text = inputs.run, inputs.model, inputs.tokenizer, inputs.data
    order = text_order(run, text)
    return Task(
        objective=objective,
        batch=order.batch,
        own_rows=order.own_rows,
        rows_per_epoch=order.rows_per_epoch,
        tokens_per_row=run.model.context_length,
        evaluate=lambda precision: evaluate_text(inputs, text, precision),
        sample=lambda step: sample_sentence(model, tokenizer, run.training.sentence, step),
        guessing_nats=math.log(run.model.rows),
        facts=summarise_data(inputs),
    )


def text_order(run: config.Run, text: PreparedData) -> WindowBatches[TokenBatch]:
    """The order of the windows of the training split.

    Raises:
        TextError: the text has fewer tokens than one context.
    """
    return next_token_batches(
        text.train.tokens,
        context_length=run.model.context_length,
        seed=run.seed,
        documents=text.train.starts if run.training.documents_apart else None,
        rings=rings_of(run.text, text),
    )


def evaluate_text(inputs: TaskInputs, text: PreparedData, precision: Precision) -> HeldOut:
    """Nats per token and bits per byte of the held-out text."""
    settings = inputs.run.training
    held_out, n_bytes = prefix(
        text.held_out.tokens, text.held_out.n_bytes, inputs.tokenizer, settings.evaluate_tokens
    )
    evaluation = evaluate_tokens(
        inputs.model,
        held_out,
        n_bytes=n_bytes,
        precision=precision,
        documents=text.held_out.starts if settings.documents_apart else None,
    )
    assert evaluation.bits_per_byte is not None  # a run knows the bytes of its text
    return HeldOut(
        loss_nats=evaluation.loss_nats,
        over=evaluation.tokens,
        unit="tokens",
        measures={"bits_per_byte": evaluation.bits_per_byte},
        standard_error=evaluation.standard_error,
    )
