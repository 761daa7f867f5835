"""Predicting each token of a text from those before it.

Comes in: prepared text. Goes out: a task. It does not know what else may be learnt from a text.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from pellucid import config
from pellucid.batches import TokenBatch
from pellucid.data import PreparedText, Tally, WindowBatches, next_token_batches
from pellucid.display.numbers import size
from pellucid.evaluation.text import evaluate_tokens, prefix
from pellucid.inference.sample import speak
from pellucid.objectives import Objective
from pellucid.tasks.task import Fact, Task, TaskInputs
from pellucid.tokenizers import Tokenizer
from pellucid.training import HeldOut, Precision


def reading_on(given: TaskInputs, objective: Objective) -> Task:
    """Windows of a text; judged by nats per token and bits per byte."""
    run, model, tokenizer, text = given.run, given.model, given.tokenizer, given.text
    order = text_order(run, text)
    return Task(
        objective=objective,
        batch=order.batch,
        rows_per_epoch=order.rows_per_epoch,
        tokens_per_row=run.model.context_length,
        evaluate=lambda precision: judge_text(given, text, precision),
        sample=lambda step: speak(model, tokenizer, run.training.sentence, step),
        guessing_nats=math.log(run.model.rows),
        facts=tuple(facts_of_text(run.text, text, tokenizer)),
    )


def text_order(run: config.Run, text: PreparedText) -> WindowBatches[TokenBatch]:
    """The order in which the training split is seen.

    Raises:
        TextError: there are fewer tokens than one context.
    """
    return next_token_batches(
        text.train.tokens,
        context_length=run.model.context_length,
        seed=run.seed,
        documents=text.train.starts if run.training.documents_apart else None,
    )


def judge_text(given: TaskInputs, text: PreparedText, precision: Precision) -> HeldOut:
    """Held-out nats per token and bits per byte."""
    settings = given.run.training
    held_out, n_bytes = prefix(
        text.held_out.tokens, text.held_out.n_bytes, given.tokenizer, settings.evaluate_tokens
    )
    evaluation = evaluate_tokens(
        given.model,
        held_out,
        n_bytes=n_bytes,
        precision=precision,
        documents=text.held_out.starts if settings.documents_apart else None,
    )
    return HeldOut(
        loss_nats=evaluation.loss_nats,
        over=evaluation.tokens,
        unit="tokens",
        measures={"bits_per_byte": evaluation.bits_per_byte},
    )


def facts_of_text(choice: config.Text, text: PreparedText, tokenizer: Tokenizer) -> Iterator[Fact]:
    """What was read, held out, and encoded."""
    manifest, train, held_out = text.manifest, text.manifest.train, text.manifest.held_out
    corpus, total = type(choice.corpus).__name__, size(train.n_bytes + held_out.n_bytes)
    yield "text", f"{corpus}, {total}, content {manifest.sha256[:12]}"
    by = "whole documents" if manifest.split_by == "documents" else "the end of each document"
    if manifest.read is not None:
        documents = (
            train.documents
            if manifest.split_by == "tails"
            else train.documents + held_out.documents
        )
        yield "read", read_in_words(documents, manifest.read)
    yield "held out", f"{size(held_out.n_bytes)} ({by}), {held_out.n_tokens:,} tokens"
    bytes_per_token = train.n_bytes / train.n_tokens
    vocabulary = f"vocabulary {tokenizer.vocab_size:,} ({bytes_per_token:.2f} bytes each)"
    yield "tokens", f"{train.n_tokens:,} to train on, {vocabulary}"
    if held_out.unknown:
        yield "unknown", f"{held_out.unknown:.3%} of the held-out tokens cannot be spelled"
    if held_out.changed:
        share = f"{held_out.changed:,} of {held_out.documents:,} held-out documents"
        yield "changed", f"{share} do not come back as they were: bits per byte flatter"


def read_in_words(documents: int, read: Tally) -> str:
    """What was read and what was left out, as one line."""
    parts = [_count(documents, "document")]
    if read.files:
        parts.append(f"from {_count(read.files, 'file')}")
    skipped = [
        (read.empty_rows, "empty row", "skipped"),
        (read.other_files, "file", "of other kinds skipped"),
        (read.duplicates, "exact duplicate", "dropped" if read.duplicates_dropped else "kept"),
    ]
    skipped_texts = [f"{_count(n, unit)} {fate}" for n, unit, fate in skipped if n]
    return ", ".join([" ".join(parts), *skipped_texts])


def _count(n: int, unit: str) -> str:
    return f"{n:,} {unit}" + ("" if n == 1 else "s")
