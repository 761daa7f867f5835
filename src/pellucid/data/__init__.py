"""Files and tables in; examples as token ids, and batches of them, out.

Must not know: models, losses.
"""

from pellucid.data.assemble import (
    Corpus,
    assemble_corpus,
    assemble_tokenizer,
    documents_of,
    fingerprint,
    source_hashes,
)
from pellucid.data.assemble_examples import (
    Columns,
    assemble_columns,
    assemble_form,
    assemble_rows,
    assemble_template,
)
from pellucid.data.batches import (
    BucketedBatches,
    PackedBatches,
    WindowBatches,
    next_token_batches,
    next_token_windows,
)
from pellucid.data.chat.templates import ChatTemplate, Template, template_for
from pellucid.data.checksums import HashCache
from pellucid.data.collate import (
    Answers,
    ClassLabels,
    Collation,
    PromptBatch,
    PromptTexts,
    TwoAnswers,
    TwoTexts,
    in_turn,
)
from pellucid.data.document_writer import prepare_documents
from pellucid.data.documents import Document, Piece, ReadCounts, pieces_of
from pellucid.data.encode import (
    EncodedCounts,
    Measure,
    OnProgress,
    encode_pieces,
    hash_pieces,
    id_type,
    measure,
    training_texts,
)
from pellucid.data.example import Example, Form, Refusal
from pellucid.data.example_writer import prepare_examples, write
from pellucid.data.manifest import DATA_FILES, Facts
from pellucid.data.mlm import Masking, masked_batches, masked_windows, masking_for
from pellucid.data.order import Packing, pack
from pellucid.data.pairs_and_labels import Labelled
from pellucid.data.skipped_rows import RowCounts, encode_rows
from pellucid.data.sources import documents_from, read_pieces
from pellucid.data.span_corruption import Spans, span_batches, span_windows, spans_for
from pellucid.data.split import (
    CorpusSide,
    DividedCorpus,
    Split,
    choose_by_digest,
    choose_held_out,
    group_digest,
    part,
    split,
)
from pellucid.data.standard_library import standard_library_docs
from pellucid.data.store import (
    Examples,
    PreparedData,
    Ragged,
    check_tokenizer,
    open_prepared,
    rings_of,
)
from pellucid.data.streams import Piped
from pellucid.data.survey import Survey, survey
from pellucid.data.table_rows import Row
from pellucid.old_words import take_old_words as _take_old_words

__all__ = [
    "DATA_FILES",
    "Answers",
    "BucketedBatches",
    "ChatTemplate",
    "ClassLabels",
    "Collation",
    "Columns",
    "Corpus",
    "CorpusSide",
    "DividedCorpus",
    "Document",
    "EncodedCounts",
    "Example",
    "Examples",
    "Facts",
    "Form",
    "HashCache",
    "Labelled",
    "Masking",
    "Measure",
    "OnProgress",
    "PackedBatches",
    "Packing",
    "Piece",
    "Piped",
    "PreparedData",
    "PromptBatch",
    "PromptTexts",
    "Ragged",
    "ReadCounts",
    "Refusal",
    "Row",
    "RowCounts",
    "Spans",
    "Split",
    "Survey",
    "Template",
    "TwoAnswers",
    "TwoTexts",
    "WindowBatches",
    "assemble_columns",
    "assemble_corpus",
    "assemble_form",
    "assemble_rows",
    "assemble_template",
    "assemble_tokenizer",
    "check_tokenizer",
    "choose_by_digest",
    "choose_held_out",
    "documents_from",
    "documents_of",
    "encode_pieces",
    "encode_rows",
    "fingerprint",
    "group_digest",
    "hash_pieces",
    "id_type",
    "in_turn",
    "masked_batches",
    "masked_windows",
    "masking_for",
    "measure",
    "next_token_batches",
    "next_token_windows",
    "open_prepared",
    "pack",
    "part",
    "pieces_of",
    "prepare_documents",
    "prepare_examples",
    "read_pieces",
    "rings_of",
    "source_hashes",
    "span_batches",
    "span_windows",
    "spans_for",
    "split",
    "standard_library_docs",
    "survey",
    "template_for",
    "training_texts",
    "write",
]

_take_old_words(__name__, globals())
