"""Lines about prepared data, for the summary before a run starts."""

from __future__ import annotations

from collections.abc import Iterator

from pellucid import config
from pellucid.data import PreparedText, ReadCounts
from pellucid.display.numbers import size
from pellucid.tasks.task import Fact, TaskInputs
from pellucid.tokenizers import Tokenizer


def summarise_examples(inputs: TaskInputs) -> tuple[Fact, ...]:
    """The columns, the examples, and how many rows were dropped or cut."""
    return tuple(_list_example_facts(inputs))


def _list_example_facts(inputs: TaskInputs) -> Iterator[Fact]:
    data, corpus = inputs.examples, inputs.run.text.corpus
    census = data.facts.census
    yield "data", f"{type(corpus).__name__}; {'; '.join(census['said'])}"
    for line in census["lines"]:
        name, _, detail = line.partition(" ")
        yield (name, detail) if name in ("dropped", "truncated") else ("rows", line)
    examples = len(data.train) + len(data.held_out)
    share = len(data.held_out) / examples
    yield "held out", f"{len(data.held_out):,} of {examples:,} examples ({share:.1%})"
    if inputs.run.start is not None and not isinstance(inputs.run.trained, config.LoRA):
        yield "from", inputs.run.start


def summarise_text(inputs: TaskInputs) -> tuple[Fact, ...]:
    """The documents, the held-out text, the tokens and the vocabulary."""
    return tuple(_list_text_facts(inputs.run.text, inputs.text, inputs.tokenizer))


def _list_text_facts(
    choice: config.Text, text: PreparedText, tokenizer: Tokenizer
) -> Iterator[Fact]:
    manifest, train, held_out = text.manifest, text.manifest.train, text.manifest.held_out
    corpus, total = type(choice.corpus).__name__, size(train.n_bytes + held_out.n_bytes)
    yield "text", f"{corpus}, {total}, content {manifest.sha256[:12]}"
    part = "whole documents" if manifest.split_by == "documents" else "the end of each document"
    if manifest.read is not None:
        documents = (
            train.documents
            if manifest.split_by == "tails"
            else train.documents + held_out.documents
        )
        yield "read", _format_tally(documents, manifest.read)
    yield "held out", f"{size(held_out.n_bytes)} ({part}), {held_out.n_tokens:,} tokens"
    bytes_per_token = train.n_bytes / train.n_tokens
    vocabulary = f"vocabulary {tokenizer.vocab_size:,} ({bytes_per_token:.2f} bytes each)"
    yield "tokens", f"{train.n_tokens:,} to train on, {vocabulary}"
    if held_out.unknown:
        yield "unknown", f"{held_out.unknown:.3%} of the held-out tokens cannot be spelled"
    if held_out.changed:
        share = f"{held_out.changed:,} of {held_out.documents:,} held-out documents"
        yield "changed", f"{share} do not come back as they were: bits per byte flatter"


def _format_tally(documents: int, read: ReadCounts) -> str:
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
