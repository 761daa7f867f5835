"""Text to token ids and back. Knows no files of text, no model and no loss."""

from pellucid.tokenizers.coverage import Unread, unread
from pellucid.tokenizers.framing import Cut, Framing
from pellucid.tokenizers.from_file import beginning_with, tokenizer_from
from pellucid.tokenizers.merges import Step, WordMerges, replay
from pellucid.tokenizers.sentencepiece import llama2c_tokenizer_from
from pellucid.tokenizers.special_tokens import SETTINGS, settings_for
from pellucid.tokenizers.tokenizer import Tokenizer, train_bytes
from pellucid.tokenizers.vocabulary import (
    mask_id_of,
    sentinels_of,
    vocabulary_of,
    with_mask,
    with_sentinels,
)

__all__ = [
    "SETTINGS",
    "Cut",
    "Framing",
    "Step",
    "Tokenizer",
    "Unread",
    "WordMerges",
    "beginning_with",
    "llama2c_tokenizer_from",
    "mask_id_of",
    "replay",
    "sentinels_of",
    "settings_for",
    "tokenizer_from",
    "train_bytes",
    "unread",
    "vocabulary_of",
    "with_mask",
    "with_sentinels",
]
