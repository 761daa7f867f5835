"""Text to token ids and back.

Must not know: files of text, models, losses.
"""

from pellucid.old_words import take_old_words as _take_old_words
from pellucid.tokenizers.framing import Cut, Framing
from pellucid.tokenizers.from_file import (
    beginning_with,
    has_tokenizer,
    no_tokenizer,
    tokenizer_from,
)
from pellucid.tokenizers.merges import Step, WordMerges, replay
from pellucid.tokenizers.sentencepiece import llama2c_tokenizer_from
from pellucid.tokenizers.special_tokens import SETTINGS, settings_for
from pellucid.tokenizers.tokenizer import Tokenizer
from pellucid.tokenizers.train import train_bytes
from pellucid.tokenizers.vocabulary import (
    Unread,
    mask_id_of,
    sentinels_of,
    unread,
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
    "has_tokenizer",
    "llama2c_tokenizer_from",
    "mask_id_of",
    "no_tokenizer",
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

_take_old_words(__name__, globals())
