"""Tokenizers that cut text at its words: whole words, and WordPiece.

Neither can spell every text: what is not in the vocabulary is the unknown token, and is counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from pellucid.tokenizers.special_tokens import BEGIN, END, UNKNOWN
from pellucid.tokenizers.tokenizer import Tokenizer
from pellucid.tokenizers.training_thread import feed

_SPECIAL = [BEGIN, END, UNKNOWN]
#: A word, or a sign, each with the blank before it; or one more blank. Every character is in one.
_WORD = r" ?\w+| ?[^\s\w]|\s"


def train_words(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    """The `vocab_size` most frequent words, special tokens included; any other word is unknown.

    A word carries the blank before it, so that a text of known words comes back as it was.
    """
    inner = tokenizers.Tokenizer(models.WordLevel(vocab={}, unk_token=UNKNOWN))
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(_WORD), behavior="isolated")
    inner.decoder = decoders.Fuse()
    trainer = trainers.WordLevelTrainer(
        vocab_size=vocab_size, special_tokens=_SPECIAL, show_progress=False
    )
    feed(partial(inner.train_from_iterator, trainer=trainer), texts)
    return Tokenizer(inner)


def train_word_pieces(texts: Iterable[str], vocab_size: int, *, lowercase: bool) -> Tokenizer:
    """BERT's WordPiece: words and signs apart, each cut into the longest pieces known.

    White space is not kept, and with `lowercase` neither are capitals and accents. The library's
    trainer breaks ties by chance: train once and keep the file.

    Source:
        Schuster and Nakajima 2012, "Japanese and Korean Voice Search"; normalised and cut as in
        Devlin et al. 2019.
    """
    inner = tokenizers.Tokenizer(models.WordPiece(vocab={}, unk_token=UNKNOWN))
    as_bert(inner, lowercase=lowercase)
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        special_tokens=_SPECIAL,
        # a letter may begin a word or go on with it: two tokens
        limit_alphabet=min(1000, (vocab_size - len(_SPECIAL)) // 2),
        show_progress=False,
    )
    feed(partial(inner.train_from_iterator, trainer=trainer), texts)
    return Tokenizer(inner)


def as_bert(inner: tokenizers.Tokenizer, *, lowercase: bool) -> None:
    """Let `inner` normalise, cut and join text as BERT does."""
    inner.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.WordPiece()
