"""Bytes on disk in; documents, token ids and batches out. Knows no model and no loss."""

from pellucid.text.assemble import assemble_documents, assemble_tokenizer, fingerprint
from pellucid.text.comparison import Measure, measure
from pellucid.text.documents import Document, Tally
from pellucid.text.ends import settings_for
from pellucid.text.files import documents_from
from pellucid.text.framing import Framing
from pellucid.text.from_file import tokenizer_from
from pellucid.text.merges import Step, WordMerges, replay
from pellucid.text.order import Order, windows
from pellucid.text.sentencepiece import llama2c_tokenizer_from
from pellucid.text.shards import PreparedText, Shard, check_tokenizer, open_prepared, prepare
from pellucid.text.split import Split, split
from pellucid.text.standard_library import standard_library_docs
from pellucid.text.tokenizers import Tokenizer, train_bytes

__all__ = [
    "Document",
    "Framing",
    "Measure",
    "Order",
    "PreparedText",
    "Shard",
    "Split",
    "Step",
    "Tally",
    "Tokenizer",
    "WordMerges",
    "assemble_documents",
    "assemble_tokenizer",
    "check_tokenizer",
    "documents_from",
    "fingerprint",
    "llama2c_tokenizer_from",
    "measure",
    "open_prepared",
    "prepare",
    "replay",
    "settings_for",
    "split",
    "standard_library_docs",
    "tokenizer_from",
    "train_bytes",
    "windows",
]
