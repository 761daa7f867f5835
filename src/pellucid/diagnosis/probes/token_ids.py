"""Probes of the rows: ids that there are rows for, texts that are not the same one again."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from pellucid.diagnosis.batches import Examples
from pellucid.diagnosis.finding import Finding, build_finding, evidence, limit


def probe_ids(data: Examples, vocab: int) -> list[Finding]:
    """Whether every id has a row in the embedding: to be asked before any other probe."""
    highest = max(int(batch.max()) for batch in data.batches)
    lowest = min(int(batch.min()) for batch in data.batches)
    if lowest >= 0 and highest < vocab:
        return []
    outside = sum(int(((batch < 0) | (batch >= vocab)).sum()) for batch in data.batches)
    return [
        build_finding(
            "DAT003",
            f"{outside} ids are outside of the vocabulary: they reach from {lowest} to {highest}, "
            f"and the model has rows for 0 to {vocab - 1}.",
            evidence("DAT003", "ids outside", outside),
            where="ids",
        )
    ]


def probe_tokenizer(tokenizer: Any, vocab: int, data: Examples | None = None) -> list[Finding]:
    """Whether the tokenizer fits the model, and knows the text."""
    size = _size(tokenizer)
    findings: list[Finding] = []
    if size is not None and size > vocab:
        findings.append(
            build_finding(
                "DAT007",
                f"The tokenizer has {size} tokens, the model has rows for {vocab}.",
                evidence("DAT007", "tokens without a row", size - vocab),
                where="tokenizer",
            )
        )
    unknown = getattr(tokenizer, "unk_token_id", getattr(tokenizer, "unknown_id", None))
    if data is None or not isinstance(unknown, int):
        return findings
    share = float((data.ids == unknown).double().mean())
    if share > limit("DAT004", "share"):
        findings.append(
            build_finding(
                "DAT004",
                f"{share:.1%} of the tokens are the one for what the tokenizer cannot spell.",
                evidence("DAT004", "share of unknown tokens", share),
                where="tokenizer",
            )
        )
    return findings


def _size(tokenizer: Any) -> int | None:
    try:
        return len(tokenizer)  # Hugging Face's: with the tokens that were added
    except TypeError:
        size = getattr(tokenizer, "vocab_size", None)
        return size if isinstance(size, int) else None


def probe_duplicates(data: Examples) -> list[Finding]:
    """Whether a batch comes twice, or a row twice in one batch."""
    findings: list[Finding] = []
    hashes = [_key(batch) for batch in data.batches]
    again = len(hashes) - len(set(hashes))
    if again:
        findings.append(
            build_finding(
                "DAT001",
                f"Of {len(hashes)} batches in a row, {again} have come before.",
                evidence("DAT001", "batches that came before", again),
                where="batches",
            )
        )
    rows = [_key(row) for row in data.ids]
    twice = len(rows) - len(set(rows))
    if twice and data.ids.shape[1] >= 4:
        findings.append(
            build_finding(
                "DAT002",
                f"{twice} of the {len(rows)} rows of a batch are copies of another row of it.",
                evidence("DAT002", "rows that are copies", twice),
                where="batches",
                severity="fault" if twice >= limit("DAT002", "half") * len(rows) else None,
            )
        )
    return findings


def _key(ids: Tensor) -> bytes:
    return ids.detach().cpu().contiguous().numpy().tobytes() + bytes(str(tuple(ids.shape)), "ascii")
