"""What is said before the first step.

Comes in: everything a run is made of. Goes out: names and lines, in order. It does not know where
they are shown.
"""

from __future__ import annotations

from collections.abc import Iterator

from pellucid import config
from pellucid.counting import memory, parameter_count
from pellucid.display.numbers import duration, short, size
from pellucid.optim import group
from pellucid.runs.folder import RunFolder
from pellucid.text import PreparedText, Tally, Tokenizer
from pellucid.training import Job

Fact = tuple[str, str]


def facts_of(
    run: config.Run,
    plan: config.Plan,
    folder: RunFolder,
    text: PreparedText,
    tokenizer: Tokenizer,
    seconds: float,
    problem: str | None,
    job: Job,
) -> Iterator[Fact]:
    """The facts of a run that is about to start: text, model, batch, machine, cost, folder.

    `seconds` is what one step was measured to take; `problem` is why nothing is compiled.
    """
    yield from _of_text(run, text, tokenizer)
    count = short(parameter_count(run.model))
    width, length = run.model.d_model, run.model.context_length
    layers = " + ".join(str(stack.n_layers) for stack in run.model.stacks)
    yield "model", f"{count} parameters, {layers} layers of {width}, context {length}"
    yield (
        "updated",
        "; ".join(
            f"{part.what} {short(part.count)}" + ("" if part.decays else ", no decay")
            for part in group(job.model.named_parameters()).every
            if part.parameters
        ),
    )
    yield "batch", _batch(run, plan, text.manifest.train.n_tokens)
    compiled = "compiled" if plan.compile else "not compiled"
    why = "" if problem is None else f" ({problem})"
    where = f"{plan.device} ({plan.device_name}), {plan.threads} threads"
    yield "on", f"{where}, {plan.precision}, {compiled}{why}"
    sequences = run.training.batch_size // run.training.accumulation
    rows = memory(run.model, run.optimiser, sequences=sequences, precision=plan.precision)
    needed = size(sum(row.n_bytes for row in rows))
    yield "expect", f"about {duration(seconds * plan.total_steps)}, {needed} of memory"
    yield "seed", str(run.seed)
    yield "folder", str(folder.path)
    yield "to resume", f"pellucid train --resume {folder.path}"


def _of_text(run: config.Run, text: PreparedText, tokenizer: Tokenizer) -> Iterator[Fact]:
    manifest, train, held_out = text.manifest, text.manifest.train, text.manifest.held_out
    corpus, total = type(run.text.corpus).__name__, size(train.n_bytes + held_out.n_bytes)
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
    each = train.n_bytes / train.n_tokens
    vocabulary = f"vocabulary {tokenizer.vocab_size:,} ({each:.2f} bytes each)"
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
    said = [f"{_count(n, what)} {fate}" for n, what, fate in skipped if n]
    return ", ".join([" ".join(parts), *said])


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}" + ("" if n == 1 else "s")


def _batch(run: config.Run, plan: config.Plan, n_tokens: int) -> str:
    settings, length = run.training, run.model.context_length
    tokens = settings.batch_size * length
    parts = f" in {settings.accumulation} parts" if settings.accumulation > 1 else ""
    epochs = plan.total_steps * tokens / n_tokens
    return (
        f"{settings.batch_size} x {length} = {tokens:,} tokens a step{parts}, {epochs:.1f} epochs"
    )
