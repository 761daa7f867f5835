"""Training tokenizers: bytes, byte pairs, characters, words and WordPiece."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from pellucid.tokenizers.special_tokens import BEGIN, END, UNKNOWN
from pellucid.tokenizers.tokenizer import Tokenizer, with_special
from pellucid.tokenizers.training_thread import feed

_SPECIAL = [BEGIN, END, UNKNOWN]
#: A word or a sign with the blank before it, or another blank. Every character is in one match.
_WORD = r" ?\w+| ?[^\s\w]|\s"


def train_bytes() -> Tokenizer:
    """One token for each byte: it needs no training, and no text is unknown."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {symbol: index for index, symbol in enumerate(alphabet)}
    inner = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = decoders.ByteLevel()
    return Tokenizer(with_special(inner, BEGIN, END))


def train_byte_pairs(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    """Byte-level BPE of at most `vocab_size` tokens; no text is unknown.

    Source:
        Sennrich, Haddow and Birch 2016, "Neural Machine Translation of Rare Words with Subword
        Units", algorithm 1; over bytes as in Radford et al. 2019, section 2.2.
    """
    inner = tokenizers.Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[BEGIN, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    feed(partial(inner.train_from_iterator, trainer=trainer), texts)
    return Tokenizer(inner)


def train_characters(texts: Iterable[str]) -> Tokenizer:
    """One token for each character in `texts`; any other becomes the unknown token."""
    characters: set[str] = set()
    for text in texts:
        characters.update(text)
    tokens = (BEGIN, END, UNKNOWN, *sorted(characters))
    vocabulary = {token: index for index, token in enumerate(tokens)}
    # A BPE without merges has the same tokens as the library's WordLevel over characters, and needs
    # no pre-tokenizer.
    inner = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token=UNKNOWN))
    inner.decoder = decoders.Fuse()
    return Tokenizer(with_special(inner, BEGIN, END, UNKNOWN))


def train_words(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    """The `vocab_size` most frequent words, special tokens included; any other word is unknown.

    A word includes the blank before it, so that a text of known words decodes unchanged.
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
    """BERT's WordPiece: words and signs are separate, each cut into its longest known pieces.

    White space is lost, and with `lowercase` so are capitals and accents. The library's trainer
    breaks ties at random: train once and keep the file.

    Source:
        Schuster and Nakajima 2012, "Japanese and Korean Voice Search"; normalised and cut as in
        Devlin et al. 2019.
    """
    inner = tokenizers.Tokenizer(models.WordPiece(vocab={}, unk_token=UNKNOWN))
    as_bert(inner, lowercase=lowercase)
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        special_tokens=_SPECIAL,
        # a letter may begin or continue a word: two tokens
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
