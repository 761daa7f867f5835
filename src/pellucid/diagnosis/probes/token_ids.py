"""Probes of ids: whether each has an embedding, and whether batches or rows come twice."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from pellucid.diagnosis.batches import Examples
from pellucid.diagnosis.finding import Finding, describe, limit


def probe_ids(data: Examples, vocab: int) -> list[Finding]:
    """Whether every id has a row in the embedding; run this before any other probe."""
    highest = max(int(batch.max()) for batch in data.batches)
    lowest = min(int(batch.min()) for batch in data.batches)
    if lowest >= 0 and highest < vocab:
        return []
    n = sum(int(((batch < 0) | (batch >= vocab)).sum()) for batch in data.batches)
    return [describe("DAT003", n=n, lowest=lowest, highest=highest, last=vocab - 1)]


def probe_tokenizer(tokenizer: Any, vocab: int, data: Examples | None = None) -> list[Finding]:
    """Whether the tokenizer fits the model, and knows the text.

    Args:
        tokenizer: pellucid's or Hugging Face's.
        vocab: the rows of the model's embedding.
        data: the batches that it encoded.
    """
    size = tokenizer_size(tokenizer)
    findings: list[Finding] = []
    if size is not None and size > vocab:
        findings.append(describe("DAT007", size=size, vocab=vocab, extra=size - vocab))
    unknown = getattr(tokenizer, "unk_token_id", getattr(tokenizer, "unknown_id", None))
    if data is not None and isinstance(unknown, int):
        share = float((data.ids == unknown).double().mean())
        if share > limit("DAT004", "share"):
            findings.append(describe("DAT004", share=share))
    return findings


def tokenizer_size(tokenizer: Any) -> int | None:
    """How many ids the tokenizer has; None if it does not say."""
    try:
        return len(tokenizer)  # Hugging Face's counts added tokens too
    except TypeError:
        size = getattr(tokenizer, "vocab_size", None)
        return size if isinstance(size, int) else None


def probe_duplicates(data: Examples) -> list[Finding]:
    """Whether a batch comes twice, or a row twice in one batch."""
    findings: list[Finding] = []
    hashes = [_key(batch) for batch in data.batches]
    repeated = len(hashes) - len(set(hashes))
    if repeated:
        findings.append(describe("DAT001", total=len(hashes), repeated=repeated))
    rows = [_key(row) for row in data.ids]
    copies, n = len(rows) - len(set(rows)), len(rows)
    if copies and data.ids.shape[1] >= 4:
        severity = "fault" if copies >= limit("DAT002", "half") * n else None
        findings.append(describe("DAT002", copies=copies, total=n, severity=severity))
    return findings


def _key(ids: Tensor) -> bytes:
    return ids.detach().cpu().contiguous().numpy().tobytes() + bytes(str(tuple(ids.shape)), "ascii")
