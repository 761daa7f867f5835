"""The kinds of tokens, special tokens to add, and the parts of a text that no token covers."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import tokenizers

from pellucid.errors import TextError
from pellucid.reader import parse_json_table, parse_tokenizer
from pellucid.tokenizers.special_tokens import BEGIN
from pellucid.tokenizers.tokenizer import Tokenizer

Flags = npt.NDArray[np.bool_]

#: The mask token that pellucid adds.
MASK = "<mask>"
#: White space at the begin of a word, in byte-level BPE and in SentencePiece.
_BLANKS = ("\u0120", "\u2581")
#: T5's names of the sentinels for cut-out spans (Raffel et al. 2020, section 2.4).
SENTINELS = tuple(f"<extra_id_{number}>" for number in range(100))


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """Facts about each token id.

    Attributes:
        special: whether it is special.
        opens: whether it opens a word.
        closes: whether the next token opens a word.
        ordinary: the ids that are not special.
    """

    special: Flags
    opens: Flags
    closes: Flags
    ordinary: npt.NDArray[np.int64]

    def words(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The number of the word of each token; a special token is a word of its own."""
        special = self.special[ids]
        is_start = self.opens[ids[1:]] | self.closes[ids[:-1]] | special[1:] | special[:-1]
        return np.concatenate([[0], np.cumsum(is_start)])


def vocabulary_of(tokenizer: Tokenizer) -> Vocabulary:
    """The kinds of a tokenizer's tokens.

    In WordPiece, a token without "##" opens a word. Other tokenizers store the white space before a
    word in its first token. There, white space opens a word, and so does each character that is no
    letter, digit or underscore, and the token after it.
    """
    table = parse_json_table(tokenizer.to_json(), "the tokenizer")
    added = {token["id"]: token["content"] for token in table["added_tokens"]}
    size = tokenizer.vocab_size
    special, opens, closes = (
        np.zeros(size, np.bool_),
        np.ones(size, np.bool_),
        np.ones(size, np.bool_),
    )
    in_vocabulary = np.zeros(size, np.bool_)
    decoder: dict[str, Any] = table["decoder"] or {}
    by_bytes = decoder.get("type") == "ByteLevel"
    continuation: str | None = table["model"].get("continuing_subword_prefix")
    for token_id, symbol in [*_symbols(table["model"]).items(), *added.items()]:
        in_vocabulary[token_id] = True
        special[token_id] = tokenizer.id_of(symbol) == token_id
        if continuation:
            opens[token_id], closes[token_id] = not symbol.startswith(continuation), False
        else:
            text = symbol.replace("\u2581", " ")  # SentencePiece's mark of white space
            if by_bytes and token_id not in added:
                text = (tokenizer.bytes_of(token_id) or b"").decode(errors="replace")
            # "'s" continues a word; an apostrophe before no letter may be a quotation mark
            goes_on_word = text[:1] in ("'", "\u2019") and _of_word(text[1:2])
            opens[token_id] = not _of_word(text[:1]) and not goes_on_word
            closes[token_id] = not _of_word(text[-1:]) and text[-1:] != " "
    return Vocabulary(special, opens, closes, np.flatnonzero(in_vocabulary & ~special))


class Unread(NamedTuple):
    """The stretches that no model sees, each once, in the order of the text.

    `unknown` are stretches that become the unknown token; `dropped` are characters without a token.
    """

    unknown: tuple[str, ...]
    dropped: tuple[str, ...]


def unread(tokenizer: Tokenizer, text: str) -> Unread:
    """The parts of a text that become the unknown token, or no token at all.

    White space, control characters and marks do not count: many tokenizers drop them on purpose.
    """
    places = zip(tokenizer.encode(text), tokenizer.spans(text), strict=True)
    unknown = [text[slice(*place)] for id, place in places if id == tokenizer.unknown_id]
    # the library's offsets skip what its BPE drops, so each character is encoded alone
    empty_ids = (tokenizer.encode(""), tokenizer.encode(" "))
    dropped = [
        character
        for character in dict.fromkeys(text)
        if unicodedata.category(character)[0] in "LNPS" and tokenizer.encode(character) in empty_ids
    ]
    return Unread(tuple(dict.fromkeys(unknown)), tuple(dropped))


def with_mask(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer with a mask token: its own, or `<mask>` as its last id.

    Raises:
        TextError: it has none, and comes from a file, whose ids belong to other models.
    """
    if "mask_token" in tokenizer.roles():
        return tokenizer
    # the mask replaces a whole token; if tokens include the blank before a word, so does the mask
    inner = parse_tokenizer(tokenizer.to_json(), "the tokenizer")
    spaced = any(symbol[:1] in _BLANKS and len(symbol) > 1 for symbol in inner.get_vocab())
    mask = tokenizers.AddedToken(MASK, lstrip=spaced, special=True)
    return _add_tokens(tokenizer, (mask,), "mask token ([MASK] or <mask>)")


def mask_id_of(tokenizer: Tokenizer) -> int:
    """The id of the mask token.

    Raises:
        TextError: there is none.
    """
    mask_id = tokenizer.id_of(tokenizer.roles().get("mask_token", ""))
    if mask_id is None:
        raise TextError(
            "the tokenizer has no mask token ([MASK] or <mask>): start from a run or a tokenizer "
            "that has one"
        )
    return mask_id


def with_sentinels(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer with T5's hundred sentinels: its own, or added as its last ids.

    Raises:
        TextError: it has none, and comes from a file, whose ids belong to other models.
    """
    if tokenizer.id_of(SENTINELS[0]) is not None:
        return tokenizer
    return _add_tokens(tokenizer, SENTINELS, "sentinels (<extra_id_0> and so on)")


def sentinels_of(tokenizer: Tokenizer) -> list[int]:
    """The ids of the sentinels, in their order.

    Raises:
        TextError: there are none.
    """
    ids = [tokenizer.id_of(name) for name in SENTINELS]
    sentinel_ids = ids[: ids.index(None)] if None in ids else ids
    if not sentinel_ids:
        raise TextError(
            "the tokenizer has no sentinels (<extra_id_0> and so on) for cut-out spans: start from "
            "a run or a tokenizer that has them"
        )
    return cast("list[int]", sentinel_ids)


def _add_tokens(
    tokenizer: Tokenizer, names: Sequence[str | tokenizers.AddedToken], missing: str
) -> Tokenizer:
    if tokenizer.id_of(BEGIN) is None:
        raise TextError(
            f"the tokenizer comes from a file and has no {missing}: choose one that has, or let "
            "pellucid train one with text.tokenizer.kind=BytePairs"
        )
    inner = parse_tokenizer(tokenizer.to_json(), "the tokenizer")
    cast("Any", inner).add_special_tokens(list(names))
    return Tokenizer(inner)


def _symbols(model: dict[str, Any]) -> dict[int, str]:
    vocabulary: Any = model["vocab"]
    if isinstance(vocabulary, dict):
        return {number: symbol for symbol, number in cast("dict[str, int]", vocabulary).items()}
    return {number: symbol for number, (symbol, _) in enumerate(vocabulary)}


def _of_word(character: str) -> bool:
    # "\ufffd" is a part of a character beyond ASCII, which is nearly always a letter
    return character.isalnum() or character in ("_", "\ufffd")
