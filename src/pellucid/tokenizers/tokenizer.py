"""Text cut into tokens and put together again, through the library `tokenizers`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from pellucid.disk import write_text
from pellucid.errors import TextError
from pellucid.reader import parse_json_table, read_tokenizer
from pellucid.tokenizers.byte_symbols import BYTE_OF, SYMBOL_OF
from pellucid.tokenizers.special_tokens import (
    BEGIN,
    END,
    SETTINGS,
    UNKNOWN,
    known_ends,
    put_around,
    read_ends,
    roles_of,
    settings_for,
)
from pellucid.tokenizers.training_thread import feed

Ids = npt.NDArray[np.uint32]

#: Stretches of a text, each of which begins with white space behind a letter or a digit.
_AT_BLANKS = ("One line", " of text", "\nand (another) 1", " 2 of it", "\n\n  after it", "\t\u00e4")


class Tokenizer:
    """A tokenizer with explicit tokens for the begin and the end of a text.

    They are found by their names, unless `ends` says them; one token may be both, as GPT-2's
    <|endoftext|> is.
    """

    def __init__(self, inner: tokenizers.Tokenizer, ends: tuple[str, str] | None = None) -> None:
        begin, end = known_ends(inner) if ends is None else ends
        # a text that spells a special token is text, not a command
        inner.encode_special_tokens = True
        # a file may say that long texts are cut, or short ones filled up: here all text counts
        inner.no_truncation()
        inner.no_padding()
        _with_special(inner, begin, end)
        self._inner = inner
        self._ends, self._are_said = (begin, end), ends is not None
        self.begin_id = cast("int", inner.token_to_id(begin))
        self.end_id = cast("int", inner.token_to_id(end))
        unknown: str | None = getattr(inner.model, "unk_token", None)
        self.unknown_id: int | None = inner.token_to_id(unknown) if unknown else None
        self._special = {i for i, t in inner.get_added_tokens_decoder().items() if t.special}
        # a vocabulary with gaps needs a row for its highest id
        self._ranks: dict[tuple[str, str], int] | None = None
        self._vocab_size = max(inner.get_vocab().values()) + 1
        self._id_of_byte = self._byte_table()

    @property
    def vocab_size(self) -> int:
        """One more than the highest id, special tokens included."""
        return self._vocab_size

    @property
    def exact(self) -> bool:
        """Whether any text comes back byte for byte, as it does from bytes and their merges."""
        cut = self._inner.pre_tokenizer
        return (
            self._inner.normalizer is None
            and isinstance(self._inner.decoder, decoders.ByteLevel)
            and isinstance(cut, pre_tokenizers.ByteLevel)
            and not cut.add_prefix_space
            and self.unknown_id is None
        )

    @property
    def sha256(self) -> str:
        """The hash of its `tokenizer.json`: two that share it are the same one."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without begin or end."""
        return self._inner.encode(text, add_special_tokens=False).ids

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Which characters of a text each of the tokens of `encode` stands for: from, to."""
        return self._inner.encode(text, add_special_tokens=False).offsets

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        """The ids of several texts, each as `encode` gives them, on all processors."""
        if self._id_of_byte is not None:  # a hundred times as fast as the library
            table = self._id_of_byte
            return [table[np.frombuffer(text.encode(), dtype=np.uint8)] for text in texts]
        encodings = cast("Any", self._inner).encode_batch_fast(texts, add_special_tokens=False)
        return [np.array(encoding.ids, dtype=np.uint32) for encoding in encodings]

    @property
    def ends_at_blanks(self) -> bool:
        """Whether no token reaches from a letter or digit into the white space behind it, so that a
        text that is cut there is encoded as the whole is.

        So it is where the cut into words is made there, or where nothing is merged.
        """
        model = parse_json_table(self.to_json(), "the tokenizer")["model"]
        if model["type"] == "BPE" and not model["merges"] and self._inner.normalizer is None:
            return True
        return all(
            self.words(head + tail) == self.words(head) + self.words(tail)
            for head, tail in pairwise(_AT_BLANKS)
        )

    def _byte_table(self) -> Ids | None:
        """The id of each byte, where each byte is a token and none are merged."""
        ids = [self._inner.token_to_id(symbol) for symbol in SYMBOL_OF]
        plain = self._inner.get_vocab_size() - len(self._special) == len(ids)
        if not plain or None in ids or not self.exact or self.merges():
            return None
        return np.array(ids, dtype=np.uint32)

    def encode_prompt(self, text: str, *, called: str = "prompt") -> list[int]:
        """The ids of a text that goes on: begin, its tokens, and no end.

        Raises:
            TextError: the text, which the message calls `called`, holds half a character.
        """
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise TextError(
                f"the {called} is not text: {text[error.start]!r} at offset {error.start} is half "
                "a character; pass UTF-8"
            ) from None
        return [self.begin_id, *self.encode(text)]

    def encode_document(self, text: str) -> list[int]:
        """The ids of a whole text: begin, its tokens, end.

        Where one token is both, it stands once, before the text: the next text's ends this one.
        """
        return [self.begin_id, *self.encode(text), *self.closing]

    @property
    def closing(self) -> list[int]:
        """What stands behind a whole text: its end, unless the same token begins the next one."""
        return [] if self.begin_id == self.end_id else [self.end_id]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; special tokens have none."""
        return self._inner.decode(list(ids), skip_special_tokens=True)

    def stream(self) -> Callable[[int], str]:
        """A function that takes one id after another and gives the text that became whole.

        A character whose bytes are spread over several tokens comes with the last of them.
        """
        decoding = decoders.DecodeStream(skip_special_tokens=True)
        return lambda token_id: decoding.step(self._inner, token_id) or ""

    def token(self, token_id: int) -> str:
        """What one id stands for, as text; special tokens by their name."""
        if token_id in self._special or token_id == self.unknown_id:
            return str(self._inner.id_to_token(token_id))
        return self.decode([token_id])

    def bytes_of(self, token_id: int) -> bytes | None:
        """The bytes of a token of byte-level BPE, which need not be whole characters; of any other
        the UTF-8 of its text, without the mark of what goes on a word. Special tokens have none.
        """
        if token_id in self._special or token_id == self.unknown_id:
            return None
        symbols = self._inner.id_to_token(token_id)
        if symbols is None or not isinstance(self._inner.decoder, decoders.ByteLevel):
            goes_on: str = getattr(self._inner.model, "continuing_subword_prefix", None) or ""
            return self.decode([token_id]).removeprefix(goes_on).encode()
        return bytes(BYTE_OF[symbol] for symbol in symbols)

    def merges(self) -> dict[tuple[str, str], int]:
        """The rank of each merge of a BPE; empty for other kinds."""
        if self._ranks is None:  # a large vocabulary takes seconds to be written as JSON
            pairs: list[Any] = parse_json_table(self.to_json(), "the tokenizer")["model"].get(
                "merges", []
            )
            # files written by older versions hold "a b" in place of ["a", "b"]
            split = (pair.split(" ") if isinstance(pair, str) else pair for pair in pairs)
            self._ranks = {(head, tail): rank for rank, (head, tail) in enumerate(split)}
        return dict(self._ranks)

    @property
    def marks_word_begins(self) -> bool:
        """Whether tokens say that a word begins; WordPiece says that one goes on."""
        decoder = self._inner.decoder
        return decoder is not None and not isinstance(decoder, decoders.WordPiece | decoders.Fuse)

    def words(self, text: str) -> list[str]:
        """The parts of a text that no token crosses, in the symbols of the vocabulary."""
        normalizer, cut = self._inner.normalizer, self._inner.pre_tokenizer
        text = normalizer.normalize_str(text) if normalizer else text
        return [part for part, _ in cut.pre_tokenize_str(text)] if cut else [text]

    def save(self, path: Path) -> None:
        """Write `tokenizer.json`; beside it which tokens begin and end, where names do not tell."""
        write_text(path, self.to_json())
        if self._are_said:
            write_text(path.with_name(SETTINGS), settings_for(self.roles()))

    def roles(self) -> dict[str, str]:
        """The special tokens by what `tokenizer_config.json` calls them."""
        return roles_of(*self._ends, has=lambda token: self.id_of(token) is not None)

    def id_of(self, token: str) -> int | None:
        """The id of a special token by its name; None where there is none."""
        return i if (i := self._inner.token_to_id(token)) in self._special else None

    def to_published_json(self, *, begins: bool, ends: bool) -> str:
        """As `to_json`, and `transformers` will put the begin before a text, the end after it.

        A file that says already what is put around a text is left as it is.
        """
        first, last = self._ends
        around = [*([first] if begins else []), "$A", *([last] if ends else [])]
        return put_around(self.to_json(), around, {first: self.begin_id, last: self.end_id})

    def to_json(self) -> str:
        """What `save` writes."""
        return self._inner.to_str(pretty=True)

    @classmethod
    def load(
        cls, path: Path, *, begin_id: int | None = None, end_id: int | None = None
    ) -> Tokenizer:
        """Read a `tokenizer.json`; what begins and ends a text as in `tokenizer_from`.

        Raises:
            TextError: the file is missing or is not a tokenizer.
        """
        inner = read_tokenizer(path, refusal=TextError)
        try:
            return cls(inner, read_ends(inner, path.parent, begin_id, end_id))
        except TextError as error:
            raise TextError(f"{path}: {error}") from None


def train_bytes() -> Tokenizer:
    """One token per byte: nothing to train, and no text is unknown."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {symbol: index for index, symbol in enumerate(alphabet)}
    inner = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = decoders.ByteLevel()
    return Tokenizer(_with_special(inner, BEGIN, END))


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
    """One token per character that occurs in `texts`; any other becomes the unknown token."""
    characters: set[str] = set()
    for text in texts:
        characters.update(text)
    tokens = (BEGIN, END, UNKNOWN, *sorted(characters))
    vocabulary = {token: index for index, token in enumerate(tokens)}
    # The library's WordLevel would need a pre-tokenizer call per character; a BPE without merges
    # is the same thing, and falls back to the unknown token character by character.
    inner = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token=UNKNOWN))
    inner.decoder = decoders.Fuse()
    return Tokenizer(_with_special(inner, BEGIN, END, UNKNOWN))


def _with_special(inner: tokenizers.Tokenizer, *tokens: str) -> tokenizers.Tokenizer:
    cast("Any", inner).add_special_tokens(list(tokens))
    return inner
