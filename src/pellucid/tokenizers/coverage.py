"""What of a text no model sees: characters that a tokenizer does not know, or drops."""

from __future__ import annotations

import unicodedata
from typing import NamedTuple

from pellucid.tokenizers.tokenizer import Tokenizer


class Unread(NamedTuple):
    """Each stretch once, in the order of the text.

    `unknown` has the unknown token in its place; `dropped` are characters without any token.
    """

    unknown: tuple[str, ...]
    dropped: tuple[str, ...]


def unread(tokenizer: Tokenizer, text: str) -> Unread:
    """What of a text becomes the unknown token, and what becomes no token at all.

    White space, control characters and marks are not counted among what is dropped: many
    tokenizers take them off a text on purpose.
    """
    places = zip(tokenizer.encode(text), tokenizer.spans(text), strict=True)
    unknown = [text[slice(*place)] for id, place in places if id == tokenizer.unknown_id]
    # the library's offsets do not count what its BPE drops, so each character is asked alone
    nothing = (tokenizer.encode(""), tokenizer.encode(" "))
    dropped = [
        character
        for character in dict.fromkeys(text)
        if unicodedata.category(character)[0] in "LNPS" and tokenizer.encode(character) in nothing
    ]
    return Unread(tuple(dict.fromkeys(unknown)), tuple(dropped))
