"""What a tokenizer makes of a text: its length, what it cannot spell, what does not come back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pellucid.data.documents import Piece
from pellucid.data.encode import EncodedCounts, encode_pieces
from pellucid.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """Counts over a text; `changed` is how many documents decode to another text."""

    vocab_size: int
    tokens: int
    bytes_per_token: float
    unknown: int
    documents: int
    changed: int


def measure(tokenizer: Tokenizer, pieces: Iterable[Piece]) -> Measure:
    """Encode every document, decode it again, and count; what begins and ends a text does not."""
    counts = EncodedCounts()
    for encoding in encode_pieces(pieces, tokenizer):
        counts.add(encoding, tokenizer.unknown_id)
    tokens = counts.n_tokens - counts.documents * (1 + len(tokenizer.closing))
    return Measure(
        vocab_size=tokenizer.vocab_size,
        tokens=tokens,
        bytes_per_token=counts.n_bytes / max(tokens, 1),
        unknown=counts.unknown,
        documents=counts.documents,
        changed=counts.changed,
    )
