"""Texts of any length in pieces that fit into memory, cut where no token crosses.

`Tokenizer.ends_at_blanks` tells whether a token of a tokenizer could cross such a cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

#: Characters of a piece. A shorter text is never cut.
LONGEST_PIECE = 2**16

_BEHIND_A_WORD = re.compile(r"(?<=[^\W_])\s")
_BLANK = re.compile(r"\s")


def cut(texts: Iterable[str], longest: int) -> Iterator[str]:
    """The text that `texts` are end to end, in pieces of at most `longest` characters.

    Where it is cut depends on the text alone, not on how it came: as late as possible between a
    letter or digit and white space, which is where pre-tokenizers begin a new word; for want of
    such a place before any white space; for want of that, after `longest` characters.
    """
    buffer = ""
    for text in texts:
        buffer += text
        place = 0
        # one more character, so that the place behind a piece can be judged
        while len(buffer) - place > longest:
            end = _place(buffer, place, place + longest)
            yield buffer[place:end]
            place = end
        buffer = buffer[place:]
    if buffer:
        yield buffer


def _place(text: str, start: int, end: int) -> int:
    for pattern in (_BEHIND_A_WORD, _BLANK):
        low, width = end, 64
        while low > start + 1:  # from the end backwards, wider and wider
            low = max(start + 1, end - width)
            places = [match.start() for match in pattern.finditer(text, low, end + 1)]
            if places:
                return places[-1]
            width *= 8
    return end
