"""Lines about prepared data, for the summary before a run starts."""

from __future__ import annotations

from collections.abc import Iterator

from pellucid import config
from pellucid.data import PreparedData, ReadCounts
from pellucid.data.manifest import ShardFacts
from pellucid.display.numbers import size
from pellucid.printable import plural
from pellucid.tasks.task import Fact, TaskInputs
from pellucid.tokenizers import Tokenizer


def summarise_data(inputs: TaskInputs) -> tuple[Fact, ...]:
    """The prepared data: their size, the held-out part, and how much was skipped or cut."""
    data = inputs.data
    if data.is_text:
        return tuple(_list_text_facts(inputs.run.text, data, inputs.tokenizer))
    return tuple(_list_example_facts(inputs.run, data))


def _list_example_facts(run: config.Run, data: PreparedData) -> Iterator[Fact]:
    yield "data", f"{type(run.text.corpus).__name__}; {'; '.join(data.census['said'])}"
    for line in data.census["lines"]:
        name, _, detail = line.partition(" ")
        yield (name, detail) if name in ("dropped", "truncated") else ("rows", line)
    examples = len(data.train) + len(data.held_out)
    share = len(data.held_out) / examples
    yield "held out", f"{len(data.held_out):,} of {examples:,} examples ({share:.1%})"
    if run.start is not None and not isinstance(run.trained, config.LoRA):
        yield "from", run.start


def _list_text_facts(
    choice: config.Text, data: PreparedData, tokenizer: Tokenizer
) -> Iterator[Fact]:
    manifest, train, held_out = data.manifest, data.manifest.train, data.manifest.held_out
    assert isinstance(train, ShardFacts)
    assert isinstance(held_out, ShardFacts)
    corpus, total = type(choice.corpus).__name__, size(train.n_bytes + held_out.n_bytes)
    yield "text", f"{corpus}, {total}, content {str(manifest.sha256)[:12]}"
    if isinstance(choice.corpus, config.Mixture):
        yield "mixed", _format_shares(choice.corpus)
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


def _format_shares(mixture: config.Mixture) -> str:
    """The share of the rows that each source has."""
    total = sum(source.weight for source in mixture.sources)
    shares = ((source.weight / total, ", ".join(source.paths)) for source in mixture.sources)
    return "; ".join(f"{share:.1%} {paths}" for share, paths in shares)


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
    return f"{n:,} {plural(n, unit)}"
