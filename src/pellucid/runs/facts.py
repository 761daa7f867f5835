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
from pellucid.text import PreparedText, Tokenizer
from pellucid.training import Job


def facts_of(
    run: config.Run,
    plan: config.Plan,
    folder: RunFolder,
    text: PreparedText,
    tokenizer: Tokenizer,
    seconds: float,
    problem: str | None,
    job: Job,
) -> Iterator[tuple[str, str]]:
    """What is said before the first step."""
    manifest, settings = text.manifest, run.training
    train, held_out = manifest.train, manifest.held_out
    yield (
        "text",
        (
            f"{type(run.text.corpus).__name__}, {size(train.n_bytes + held_out.n_bytes)}, "
            f"content {manifest.sha256[:12]}"
        ),
    )
    by = "whole documents" if manifest.split_by == "documents" else "the end of each document"
    yield "held out", f"{size(held_out.n_bytes)} ({by}), {held_out.n_tokens:,} tokens"
    yield (
        "tokens",
        (
            f"{train.n_tokens:,} to train on, vocabulary {tokenizer.vocab_size:,} "
            f"({train.n_bytes / train.n_tokens:.2f} bytes each)"
        ),
    )
    if held_out.unknown:
        yield "unknown", f"{held_out.unknown:.3%} of the held-out tokens cannot be spelled"
    yield (
        "model",
        (
            f"{short(parameter_count(run.model))} parameters, {run.model.decoder.n_layers} layers of "
            f"{run.model.d_model}, context {run.model.context_length}"
        ),
    )
    yield (
        "updated",
        "; ".join(
            f"{part.what} {short(part.count)}{'' if part.decays else ', no decay'}"
            for part in group(job.model.named_parameters()).every
            if part.parameters
        ),
    )
    batch = settings.batch_size * run.model.context_length
    yield (
        "batch",
        (
            f"{settings.batch_size} x {run.model.context_length} = {batch:,} tokens a step"
            + (f" in {settings.accumulation} parts" if settings.accumulation > 1 else "")
            + f", {plan.total_steps * batch / train.n_tokens:.1f} epochs"
        ),
    )
    compiled = "compiled" if plan.compile else "not compiled"
    yield (
        "on",
        f"{plan.device} ({plan.device_name}), {plan.threads} threads, {plan.precision}, "
        + (compiled if problem is None else f"not compiled ({problem})"),
    )
    sequences = settings.batch_size // settings.accumulation
    rows = memory(run.model, run.optimiser, sequences=sequences, precision=plan.precision)
    needed = sum(row.n_bytes for row in rows)
    yield "expect", f"about {duration(seconds * plan.total_steps)}, {size(needed)} of memory"
    yield "seed", str(run.seed)
    yield "folder", str(folder.path)
    yield "to resume", f"pellucid train --resume {folder.path}"
