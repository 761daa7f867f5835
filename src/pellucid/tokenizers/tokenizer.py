"""A tokenizer: text to token ids and back, through the library `tokenizers`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import tokenizers
from tokenizers import decoders, pre_tokenizers

from pellucid.disk import write_text
from pellucid.errors import TextError
from pellucid.reader import parse_json_table, read_tokenizer
from pellucid.tokenizers.special_tokens import (
    SETTINGS,
    add_frame,
    known_ends,
    read_ends,
    roles_of,
    settings_for,
)

Ids = npt.NDArray[np.uint32]

#: The symbols of bytes in a byte-level vocabulary (Radford et al. 2019, encoder.py).
_PRINTED = [*range(33, 127), *range(161, 173), *range(174, 256)]
_UNPRINTED = [byte for byte in range(256) if byte not in _PRINTED]
_BYTE_OF: dict[str, int] = {chr(byte): byte for byte in _PRINTED} | {
    chr(256 + place): byte for place, byte in enumerate(_UNPRINTED)
}
_SYMBOL_OF: list[str] = sorted(_BYTE_OF, key=_BYTE_OF.__getitem__)
#: Stretches of a text; each but the first begins with white space after a letter or a digit.
_AT_BLANKS = ("One line", " of text", "\nand (another) 1", " 2 of it", "\n\n  after it", "\t\u00e4")


def symbol_of_byte() -> list[str]:
    """The symbol of each byte in a byte-level vocabulary."""
    return list(_SYMBOL_OF)


class Tokenizer:
    """A tokenizer with explicit tokens for the begin and the end of a text.

    Without `ends`, they are the tokens with a known name. One token may be both, like GPT-2's
    <|endoftext|>.
    """

    def __init__(self, inner: tokenizers.Tokenizer, ends: tuple[str, str] | None = None) -> None:
        begin, end = known_ends(inner) if ends is None else ends
        # the name of a special token in a text is text, not a command
        inner.encode_special_tokens = True
        # a file may ask for truncation or padding, but here all text counts
        inner.no_truncation()
        inner.no_padding()
        with_special(inner, begin, end)
        self._inner = inner
        self._ends, self._has_explicit_ends = (begin, end), ends is not None
        self.begin_id = cast("int", inner.token_to_id(begin))
        self.end_id = cast("int", inner.token_to_id(end))
        unknown: str | None = getattr(inner.model, "unk_token", None)
        self.unknown_id: int | None = inner.token_to_id(unknown) if unknown else None
        self._special = {i for i, t in inner.get_added_tokens_decoder().items() if t.special}
        # a vocabulary with gaps also needs a row for its highest id
        self._ranks: dict[tuple[str, str], int] | None = None
        self._vocab_size = max(inner.get_vocab().values()) + 1
        self._id_of_byte = self._byte_table()

    @property
    def vocab_size(self) -> int:
        """One more than the highest id, special tokens included."""
        return self._vocab_size

    @property
    def exact(self) -> bool:
        """Whether any text decodes to the same bytes, as in byte-level BPE."""
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
        """The hash of its `tokenizer.json`, the same for equal tokenizers."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without begin or end."""
        return self._inner.encode(text, add_special_tokens=False).ids

    def spans(self, text: str) -> list[tuple[int, int]]:
        """The characters of each token of `encode`, as (start, end)."""
        return self._inner.encode(text, add_special_tokens=False).offsets

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        """The ids of several texts, each as from `encode`, on all processors."""
        if self._id_of_byte is not None:  # a hundred times faster than the library
            table = self._id_of_byte
            return [table[np.frombuffer(text.encode(), dtype=np.uint8)] for text in texts]
        encodings = cast("Any", self._inner).encode_batch_fast(texts, add_special_tokens=False)
        return [np.array(encoding.ids, dtype=np.uint32) for encoding in encodings]

    @property
    def ends_at_blanks(self) -> bool:
        """Whether no token reaches from a letter or digit into the next white space.

        Then a text can be cut there: its parts have the same tokens as the whole text. It is true
        if the tokenizer separates words there, or if it merges nothing.
        """
        model = parse_json_table(self.to_json(), "the tokenizer")["model"]
        if model["type"] == "BPE" and not model["merges"] and self._inner.normalizer is None:
            return True
        return all(
            self.words(head + tail) == self.words(head) + self.words(tail)
            for head, tail in pairwise(_AT_BLANKS)
        )

    def _byte_table(self) -> Ids | None:
        """The id of each byte, if each byte is a token and nothing is merged."""
        ids = [self._inner.token_to_id(symbol) for symbol in _SYMBOL_OF]
        plain = self._inner.get_vocab_size() - len(self._special) == len(ids)
        if not plain or None in ids or not self.exact or self.merges():
            return None
        return np.array(ids, dtype=np.uint32)

    def encode_prompt(self, text: str, *, name: str = "prompt") -> list[int]:
        """The ids of a text to continue: begin and its tokens, without end.

        Raises:
            TextError: the text, `name` in the message, has half a character.
        """
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise TextError(
                f"the {name} is not text: {text[error.start]!r} at offset {error.start} is half "
                "a character; pass UTF-8"
            ) from None
        return [self.begin_id, *self.encode(text)]

    def encode_document(self, text: str) -> list[int]:
        """The ids of a complete text: begin, its tokens, end.

        If one token is both, only the begin is there; the begin of the next text ends this one.
        """
        return [self.begin_id, *self.encode(text), *self.closing]

    @property
    def closing(self) -> list[int]:
        """The ids after a complete text: its end, unless the same token begins the next text."""
        return [] if self.begin_id == self.end_id else [self.end_id]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, without special tokens."""
        return self._inner.decode(list(ids), skip_special_tokens=True)

    def stream(self) -> Callable[[int], str]:
        """A function from the next id to the new complete characters.

        A character with several tokens comes with the last of them.
        """
        decoding = decoders.DecodeStream(skip_special_tokens=True)
        return lambda token_id: decoding.step(self._inner, token_id) or ""

    def token(self, token_id: int) -> str:
        """The text of one id; for a special token, its name."""
        if token_id in self._special or token_id == self.unknown_id:
            return str(self._inner.id_to_token(token_id))
        return self.decode([token_id])

    def bytes_of(self, token_id: int) -> bytes | None:
        """The bytes of a token; None for a special token.

        In byte-level BPE they may be a part of a character. In other tokenizers they are the UTF-8
        of its text, without the mark of a continued word.
        """
        if token_id in self._special or token_id == self.unknown_id:
            return None
        symbols = self._inner.id_to_token(token_id)
        if symbols is None or not isinstance(self._inner.decoder, decoders.ByteLevel):
            prefix: str = getattr(self._inner.model, "continuing_subword_prefix", None) or ""
            return self.decode([token_id]).removeprefix(prefix).encode()
        return bytes(_BYTE_OF[symbol] for symbol in symbols)

    def merges(self) -> dict[tuple[str, str], int]:
        """The rank of each merge of a BPE; empty for other kinds."""
        if self._ranks is None:  # a large vocabulary takes seconds to convert to JSON
            pairs: list[Any] = parse_json_table(self.to_json(), "the tokenizer")["model"].get(
                "merges", []
            )
            # files of older versions have "a b" in place of ["a", "b"]
            split = (pair.split(" ") if isinstance(pair, str) else pair for pair in pairs)
            self._ranks = {(head, tail): rank for rank, (head, tail) in enumerate(split)}
        return dict(self._ranks)

    @property
    def marks_word_begins(self) -> bool:
        """Whether tokens mark the begin of a word; WordPiece marks its continuation instead."""
        decoder = self._inner.decoder
        return decoder is not None and not isinstance(decoder, decoders.WordPiece | decoders.Fuse)

    def words(self, text: str) -> list[str]:
        """The parts that the text is cut into before tokens, in the symbols of the vocabulary."""
        normalizer, cut = self._inner.normalizer, self._inner.pre_tokenizer
        text = normalizer.normalize_str(text) if normalizer else text
        return [part for part, _ in cut.pre_tokenize_str(text)] if cut else [text]

    def save(self, path: Path) -> None:
        """Write `tokenizer.json`, and a settings file if begin and end have no known names."""
        write_text(path, self.to_json())
        if self._has_explicit_ends:
            write_text(path.with_name(SETTINGS), settings_for(self.roles()))

    def roles(self) -> dict[str, str]:
        """The special tokens by their keys in `tokenizer_config.json`."""
        return roles_of(*self._ends, is_token=lambda token: self.id_of(token) is not None)

    def id_of(self, token: str) -> int | None:
        """The id of a special token by its name; None if there is no such token."""
        return i if (i := self._inner.token_to_id(token)) in self._special else None

    def to_published_json(self, *, add_begin: bool, add_end: bool) -> str:
        """As `to_json`, with the frame that `transformers` adds to each text.

        A file that already has a post-processor stays unchanged.
        """
        first, last = self._ends
        frame = [*([first] if add_begin else []), "$A", *([last] if add_end else [])]
        return add_frame(self.to_json(), frame, {first: self.begin_id, last: self.end_id})

    def to_json(self) -> str:
        """The content of `tokenizer.json`."""
        return self._inner.to_str(pretty=True)

    @classmethod
    def load(
        cls, path: Path, *, begin_id: int | None = None, end_id: int | None = None
    ) -> Tokenizer:
        """Read a `tokenizer.json`; begin and end are as in `tokenizer_from`.

        Args:
            path: the file.
            begin_id: the begin token by the config of a model.
            end_id: the end token by the config of a model.

        Raises:
            TextError: the file is missing or is not a tokenizer.
        """
        inner = read_tokenizer(path, refusal=TextError)
        try:
            return cls(inner, read_ends(inner, path.parent, begin_id, end_id))
        except TextError as error:
            raise TextError(f"{path}: {error}") from None


def with_special(inner: tokenizers.Tokenizer, *tokens: str) -> tokenizers.Tokenizer:
    """The library's tokenizer, with these special tokens added."""
    cast("Any", inner).add_special_tokens(list(tokens))
    return inner
