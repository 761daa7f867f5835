"""What a tokenizer makes of a text: its length, what it cannot spell, what does not come back.

Comes in: a tokenizer and documents. Goes out: counts. It does not know where the tokenizer is from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pellucid.text.documents import Document
from pellucid.text.tokenizers import Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """Counts over a text; `changed` is how many documents decode to another text."""

    vocab_size: int
    tokens: int
    bytes_per_token: float
    unknown: int
    documents: int
    changed: int


def measure(tokenizer: Tokenizer, documents: Sequence[Document]) -> Measure:
    """Encode every document, decode it again, and count."""
    tokens = unknown = changed = n_bytes = 0
    for document in documents:
        ids = tokenizer.encode(document.text)
        tokens += len(ids)
        unknown += 0 if tokenizer.unknown_id is None else ids.count(tokenizer.unknown_id)
        changed += tokenizer.decode(ids) != document.text
        n_bytes += len(document.text.encode())
    return Measure(
        vocab_size=tokenizer.vocab_size,
        tokens=tokens,
        bytes_per_token=n_bytes / max(tokens, 1),
        unknown=unknown,
        documents=len(documents),
        changed=changed,
    )
