"""Bytes on disk in; documents, token ids and batches out. Knows no model and no loss."""

from pellucid.text.assemble import (
    Corpus,
    assemble_corpus,
    assemble_tokenizer,
    documents_of,
    fingerprint,
)
from pellucid.text.checksums import Remembered
from pellucid.text.comparison import Measure, measure
from pellucid.text.documents import Document, Piece, Tally, pieces_of
from pellucid.text.encoding import Counts, Watch, encoded, hashed, id_type, training_texts
from pellucid.text.ends import SETTINGS, settings_for
from pellucid.text.files import documents_from, read_pieces
from pellucid.text.framing import Cut, Framing
from pellucid.text.from_file import beginning_with, tokenizer_from
from pellucid.text.masking import MaskedOrder, Masking, masked_windows, masking_for
from pellucid.text.merges import Step, WordMerges, replay
from pellucid.text.order import Order, windows
from pellucid.text.sentencepiece import llama2c_tokenizer_from
from pellucid.text.shards import (
    TEXT_FILES,
    PreparedText,
    Shard,
    check_tokenizer,
    open_prepared,
    prepare,
)
from pellucid.text.spans import SpanOrder, Spans, span_windows, spans_for
from pellucid.text.split import Parts, Side, Split, part, split
from pellucid.text.standard_library import standard_library_docs
from pellucid.text.streams import Piped
from pellucid.text.survey import Survey, survey
from pellucid.text.tokenizers import Tokenizer, train_bytes
from pellucid.text.unread import Unread, unread
from pellucid.text.vocabulary import (
    mask_id_of,
    sentinels_of,
    vocabulary_of,
    with_mask,
    with_sentinels,
)

__all__ = [
    "SETTINGS",
    "TEXT_FILES",
    "Corpus",
    "Counts",
    "Cut",
    "Document",
    "Framing",
    "MaskedOrder",
    "Masking",
    "Measure",
    "Order",
    "Parts",
    "Piece",
    "Piped",
    "PreparedText",
    "Remembered",
    "Shard",
    "Side",
    "SpanOrder",
    "Spans",
    "Split",
    "Step",
    "Survey",
    "Tally",
    "Tokenizer",
    "Unread",
    "Watch",
    "WordMerges",
    "assemble_corpus",
    "assemble_tokenizer",
    "beginning_with",
    "check_tokenizer",
    "documents_from",
    "documents_of",
    "encoded",
    "fingerprint",
    "hashed",
    "id_type",
    "llama2c_tokenizer_from",
    "mask_id_of",
    "masked_windows",
    "masking_for",
    "measure",
    "open_prepared",
    "part",
    "pieces_of",
    "prepare",
    "read_pieces",
    "replay",
    "sentinels_of",
    "settings_for",
    "span_windows",
    "spans_for",
    "split",
    "standard_library_docs",
    "survey",
    "tokenizer_from",
    "train_bytes",
    "training_texts",
    "unread",
    "vocabulary_of",
    "windows",
    "with_mask",
    "with_sentinels",
]
