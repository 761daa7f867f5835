"""The size of a corpus in documents, bytes and tokens, before a training."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from pellucid import config
from pellucid.data import EncodedCounts, ReadCounts, encode_pieces, hash_pieces
from pellucid.runs.prepare_text import survey_and_divide, train_tokenizer
from pellucid.saved_runs.progress import Notify, ProgressReporter, silent


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusReport:
    """Documents and bytes of a corpus, their tokens, and counts of documents left out.

    Attributes:
        documents: how many there are.
        n_bytes: bytes of all texts, as UTF-8.
        n_tokens: tokens of all texts.
        unknown: tokens that are the unknown token.
        changed_documents: documents that decode to another text.
        vocab_size: of the tokenizer.
        longest_bytes: bytes of the longest document.
        longest: its name.
        sha256: a hash of the content of all texts.
        tally: what was read and skipped.
    """

    documents: int
    n_bytes: int
    n_tokens: int
    unknown: int
    changed_documents: int
    vocab_size: int
    longest_bytes: int
    longest: str
    sha256: str
    tally: ReadCounts

    @property
    def bytes_per_token(self) -> float:
        """The mean bytes of text per token; begin and end tokens count."""
        return self.n_bytes / self.n_tokens


def count_corpus(text: config.Text, notify: Notify = silent) -> CorpusReport:
    """Read a corpus as training would, and count.

    The tokenizer is trained on the training split, as for a run. `notify` takes a line every few
    seconds.

    Raises:
        TextError: the corpus cannot be read, or is too small.
    """
    tally = ReadCounts()
    corpus_survey, parts = survey_and_divide(text, tally, notify)
    tokenizer = train_tokenizer(text, parts, notify)
    watch = ProgressReporter(notify, "encoding the text", corpus_survey.n_bytes)
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
        changed_documents=counts.lossy,
        vocab_size=tokenizer.vocab_size,
        longest_bytes=int(corpus_survey.sizes.max()),
        longest=corpus_survey.longest,
        sha256=digest.hexdigest(),
        tally=tally,
    )
