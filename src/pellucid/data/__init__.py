"""Files and tables in; examples as token ids, and batches of them, out. Knows no model, no loss."""

from pellucid.data.assemble import (
    Corpus,
    assemble_corpus,
    assemble_tokenizer,
    documents_of,
    fingerprint,
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
    Windows,
    in_turn,
    next_token_batches,
    next_token_windows,
    predict_next,
    windows_in_turn,
)
from pellucid.data.chat.templates import ChatTemplate, Template, template_for
from pellucid.data.checksums import Remembered
from pellucid.data.collate import (
    Answers,
    ClassLabels,
    Collation,
    PromptBatch,
    PromptTexts,
    TwoAnswers,
    TwoTexts,
)
from pellucid.data.documents import Document, Piece, Tally, pieces_of
from pellucid.data.encode import Counts, Watch, encode_pieces, hashed, id_type, training_texts
from pellucid.data.example import Example, Form, Refusal
from pellucid.data.example_writer import prepare_examples, write
from pellucid.data.mlm import Masking, MaskTokens, masked_batches, masked_windows, masking_for
from pellucid.data.order import BucketOrder, PackedOrder, Packing, WindowOrder, pack
from pellucid.data.pairs_and_labels import Labelled
from pellucid.data.shards import (
    TEXT_FILES,
    PreparedText,
    Shard,
    check_tokenizer,
    open_prepared,
    prepare,
)
from pellucid.data.skipped_rows import Census, encode_rows
from pellucid.data.sources import documents_from, read_pieces
from pellucid.data.span_corruption import CorruptSpans, Spans, span_batches, span_windows, spans_for
from pellucid.data.split import (
    Parts,
    Side,
    Split,
    group_digest,
    held_out_by_digest,
    held_out_of,
    part,
    split,
)
from pellucid.data.standard_library import standard_library_docs
from pellucid.data.store import (
    EXAMPLE_FILES,
    Examples,
    Facts,
    Ragged,
    StoredExamples,
    open_examples,
)
from pellucid.data.streams import Piped
from pellucid.data.survey import Survey, survey
from pellucid.data.table_rows import Row
from pellucid.data.tokenizer_comparison import Measure, measure

__all__ = [
    "EXAMPLE_FILES",
    "TEXT_FILES",
    "Answers",
    "BucketOrder",
    "BucketedBatches",
    "Census",
    "ChatTemplate",
    "ClassLabels",
    "Collation",
    "Columns",
    "Corpus",
    "CorruptSpans",
    "Counts",
    "Document",
    "Example",
    "Examples",
    "Facts",
    "Form",
    "Labelled",
    "MaskTokens",
    "Masking",
    "Measure",
    "PackedBatches",
    "PackedOrder",
    "Packing",
    "Parts",
    "Piece",
    "Piped",
    "PreparedText",
    "PromptBatch",
    "PromptTexts",
    "Ragged",
    "Refusal",
    "Remembered",
    "Row",
    "Shard",
    "Side",
    "Spans",
    "Split",
    "StoredExamples",
    "Survey",
    "Tally",
    "Template",
    "TwoAnswers",
    "TwoTexts",
    "Watch",
    "WindowBatches",
    "WindowOrder",
    "Windows",
    "assemble_columns",
    "assemble_corpus",
    "assemble_form",
    "assemble_rows",
    "assemble_template",
    "assemble_tokenizer",
    "check_tokenizer",
    "documents_from",
    "documents_of",
    "encode_pieces",
    "encode_rows",
    "fingerprint",
    "group_digest",
    "hashed",
    "held_out_by_digest",
    "held_out_of",
    "id_type",
    "in_turn",
    "masked_batches",
    "masked_windows",
    "masking_for",
    "measure",
    "next_token_batches",
    "next_token_windows",
    "open_examples",
    "open_prepared",
    "pack",
    "part",
    "pieces_of",
    "predict_next",
    "prepare",
    "prepare_examples",
    "read_pieces",
    "span_batches",
    "span_windows",
    "spans_for",
    "split",
    "standard_library_docs",
    "survey",
    "template_for",
    "training_texts",
    "windows_in_turn",
    "write",
]
