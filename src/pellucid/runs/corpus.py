"""What a corpus holds, before anything is trained on it.

Comes in: a config's text. Goes out: counts. Nothing is written. It does not know models.
"""

from __future__ import annotations

from dataclasses import dataclass

from pellucid import config
from pellucid.text import Tally, assemble_documents, assemble_tokenizer, split
from pellucid.text.shards import content_hash


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusReport:
    """Documents and bytes that would be used, the tokens they become, and what was left out."""

    documents: int
    n_bytes: int
    n_tokens: int
    vocab_size: int
    longest_bytes: int
    longest: str
    sha256: str
    tally: Tally

    @property
    def bytes_per_token(self) -> float:
        """How much text a token stands for, on average; begin and end tokens count."""
        return self.n_bytes / self.n_tokens


def count_corpus(text: config.Text) -> CorpusReport:
    """Read a corpus as training would, and count.

    The tokenizer is trained on the training split, as for a run.

    Raises:
        TextError: the corpus cannot be read, or is too small.
    """
    documents, tally = assemble_documents(text)
    parts = split(documents, text.held_out)
    tokenizer = assemble_tokenizer(text.tokenizer, parts.train)
    used = [*parts.train, *parts.held_out]
    sizes = [len(document.text.encode()) for document in documents]
    longest = max(range(len(sizes)), key=sizes.__getitem__)
    return CorpusReport(
        documents=len(documents),
        n_bytes=sum(sizes),
        n_tokens=sum(len(tokenizer.encode_document(document.text)) for document in used),
        vocab_size=tokenizer.vocab_size,
        longest_bytes=sizes[longest],
        longest=documents[longest].name,
        sha256=content_hash(used),
        tally=tally,
    )
