"""Bytes on disk in; documents, token ids and batches out. Knows no model and no loss."""

from pellucid.text.assemble import assemble_documents, assemble_tokenizer, fingerprint
from pellucid.text.documents import Document, Tally
from pellucid.text.files import documents_from
from pellucid.text.order import Order, windows
from pellucid.text.shards import PreparedText, Shard, open_prepared, prepare
from pellucid.text.split import Split, split
from pellucid.text.standard_library import standard_library_docs
from pellucid.text.tokenizers import Tokenizer

__all__ = [
    "Document",
    "Order",
    "PreparedText",
    "Shard",
    "Split",
    "Tally",
    "Tokenizer",
    "assemble_documents",
    "assemble_tokenizer",
    "documents_from",
    "fingerprint",
    "open_prepared",
    "prepare",
    "split",
    "standard_library_docs",
    "windows",
]
