"""Texts of any length in pieces that fit into memory, cut between tokens.

`Tokenizer.ends_at_blanks` is false if a token could cross such a cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

#: Characters of a piece. A shorter text is never cut.
LONGEST_PIECE = 2**16

_BEHIND_A_WORD = re.compile(r"(?<=[^\W_])\s")
_BLANK = re.compile(r"\s")


def cut(texts: Iterable[str], longest: int) -> Iterator[str]:
    """The joined text of `texts`, in pieces of at most `longest` characters.

    The cuts depend only on the joined text. A piece ends as late as possible between a letter or
    digit and white space, where pre-tokenizers start a new word. If there is no such place, it ends
    before any white space; if there is none, after `longest` characters.
    """
    buffer = ""
    for text in texts:
        buffer += text
        place = 0
        # one character more than a piece, to see whether a word ends there
        while len(buffer) - place > longest:
            end = _find_cut(buffer, place, place + longest)
            yield buffer[place:end]
            place = end
        buffer = buffer[place:]
    if buffer:
        yield buffer


def _find_cut(text: str, start: int, end: int) -> int:
    for pattern in (_BEHIND_A_WORD, _BLANK):
        low, width = end, 64
        while low > start + 1:  # from the end backwards, wider and wider
            low = max(start + 1, end - width)
            places = [match.start() for match in pattern.finditer(text, low, end + 1)]
            if places:
                return places[-1]
            width *= 8
    return end
