"""What the tokens of a vocabulary are: special or ordinary, the begin of a word or its middle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import tokenizers

from pellucid.errors import TextError
from pellucid.reader import parse_json_table, parse_tokenizer
from pellucid.tokenizers.special_tokens import BEGIN
from pellucid.tokenizers.tokenizer import Tokenizer

Flags = npt.NDArray[np.bool_]

#: The token that stands for a hidden one, where we add it.
MASK = "<mask>"
#: How byte-level BPE and SentencePiece spell the white space that a word's first token begins with.
_BLANKS = ("\u0120", "\u2581")
#: T5's names for the spans that were cut out of a text (Raffel et al. 2020, section 2.4).
SENTINELS = tuple(f"<extra_id_{number}>" for number in range(100))


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """By id: is it special, does it open a word, does whatever follows it open one.

    `ordinary` are the ids of all tokens that are not special.
    """

    special: Flags
    opens: Flags
    closes: Flags
    ordinary: npt.NDArray[np.int64]

    def words(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The number of the word of each token; a special token is a word of its own."""
        special = self.special[ids]
        begins = self.opens[ids[1:]] | self.closes[ids[:-1]] | special[1:] | special[:-1]
        return np.concatenate([[0], np.cumsum(begins)])


def vocabulary_of(tokenizer: Tokenizer) -> Vocabulary:
    """What the tokens of a tokenizer are.

    Words are the tokenizer's own: of WordPiece, what does not begin with its "##" opens one. All
    others keep the white space before a word in its first token: there a word opens with white
    space and with each sign that is no letter, digit or underscore, and after one.
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
    goes_on: str | None = table["model"].get("continuing_subword_prefix")
    for token_id, symbol in [*_symbols(table["model"]).items(), *added.items()]:
        in_vocabulary[token_id] = True
        special[token_id] = tokenizer.id_of(symbol) == token_id
        if goes_on:
            opens[token_id], closes[token_id] = not symbol.startswith(goes_on), False
        else:
            text = symbol.replace("\u2581", " ")  # SentencePiece's mark of white space
            if by_bytes and token_id not in added:
                text = (tokenizer.bytes_of(token_id) or b"").decode(errors="replace")
            # "'s" goes on a word; an apostrophe alone, or before a sign, may be a quotation mark
            goes_on_word = text[:1] in ("'", "\u2019") and _of_word(text[1:2])
            opens[token_id] = not _of_word(text[:1]) and not goes_on_word
            closes[token_id] = not _of_word(text[-1:]) and text[-1:] != " "
    return Vocabulary(special, opens, closes, np.flatnonzero(in_vocabulary & ~special))


def with_mask(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer with a token that stands for a hidden one: its own, or `<mask>` at its end.

    Raises:
        TextError: it has none and was not made here, so that other models know its ids.
    """
    if "mask_token" in tokenizer.roles():
        return tokenizer
    # it stands for a whole token: where words are spelled with the blank before them, so is a mask
    # that somebody writes, and the blank before it is no token of its own
    inner = parse_tokenizer(tokenizer.to_json(), "the tokenizer")
    spaced = any(symbol[:1] in _BLANKS and len(symbol) > 1 for symbol in inner.get_vocab())
    mask = tokenizers.AddedToken(MASK, lstrip=spaced, special=True)
    return _with(tokenizer, (mask,), "token for what is masked ([MASK] or <mask>)")


def mask_id_of(tokenizer: Tokenizer) -> int:
    """The id of the mask token.

    Raises:
        TextError: there is none.
    """
    mask_id = tokenizer.id_of(tokenizer.roles().get("mask_token", ""))
    if mask_id is None:
        raise TextError(
            "the tokenizer has no token for what is masked ([MASK] or <mask>): start from a run or "
            "a tokenizer that was made for masked tokens"
        )
    return mask_id


def with_sentinels(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer with T5's hundred sentinels: its own, or added at its end.

    Raises:
        TextError: it has none and was not made here, so that other models know its ids.
    """
    if tokenizer.id_of(SENTINELS[0]) is not None:
        return tokenizer
    return _with(tokenizer, SENTINELS, "sentinels (<extra_id_0> and so on)")


def sentinels_of(tokenizer: Tokenizer) -> list[int]:
    """The ids of the sentinels, in their order.

    Raises:
        TextError: there are none.
    """
    ids = [tokenizer.id_of(name) for name in SENTINELS]
    sentinel_ids = ids[: ids.index(None)] if None in ids else ids
    if not sentinel_ids:
        raise TextError(
            "the tokenizer has no sentinels (<extra_id_0> and so on) for the spans that are cut "
            "out: start from a run or a tokenizer that was made for span corruption"
        )
    return cast("list[int]", sentinel_ids)


def _with(
    tokenizer: Tokenizer, names: Sequence[str | tokenizers.AddedToken], missing: str
) -> Tokenizer:
    if tokenizer.id_of(BEGIN) is None:
        raise TextError(
            f"the tokenizer comes from a file and has no {missing}: take one that has, or let "
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
    # what is no whole character ("\ufffd") is a part of one beyond ASCII: nearly always a letter
    return character.isalnum() or character in ("_", "\ufffd")
