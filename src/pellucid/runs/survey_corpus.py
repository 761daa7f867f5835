"""What a corpus holds, before anything is trained on it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from pellucid import config
from pellucid.data import EncodedCounts, ReadCounts, encode_pieces, hash_pieces
from pellucid.runs.prepare_text import survey_and_divide, train_tokenizer
from pellucid.saved_runs.progress import ProgressReporter, Say, silent


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusReport:
    """Documents and bytes that would be used, the tokens they become, and what was left out."""

    documents: int
    n_bytes: int
    n_tokens: int
    unknown: int
    changed: int
    vocab_size: int
    longest_bytes: int
    longest: str
    sha256: str
    tally: ReadCounts

    @property
    def bytes_per_token(self) -> float:
        """How much text a token stands for, on average; begin and end tokens count."""
        return self.n_bytes / self.n_tokens


def count_corpus(text: config.Text, now: Say = silent) -> CorpusReport:
    """Read a corpus as training would, and count; `now` is told how far it has come.

    The tokenizer is trained on the training split, as for a run.

    Raises:
        TextError: the corpus cannot be read, or is too small.
    """
    tally = ReadCounts()
    corpus_survey, parts = survey_and_divide(text, tally, now)
    tokenizer = train_tokenizer(text, parts, now)
    watch = ProgressReporter(now, "encoding the text", corpus_survey.n_bytes)
    digest = hashlib.sha256()
    counts = EncodedCounts()
    for side in (parts.train, parts.held_out):
        for piece in encode_pieces(hash_pieces(side, digest), tokenizer, watch=watch):
            counts.add(piece, tokenizer.unknown_id)
    return CorpusReport(
        documents=corpus_survey.documents,
        n_bytes=corpus_survey.n_bytes,
        n_tokens=counts.n_tokens,
        unknown=counts.unknown,
        changed=counts.lossy,
        vocab_size=tokenizer.vocab_size,
        longest_bytes=int(corpus_survey.sizes.max()),
        longest=corpus_survey.longest,
        sha256=digest.hexdigest(),
        tally=tally,
    )
