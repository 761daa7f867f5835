"""A rendered chat as token ids: what the template wrote may be special tokens, what was said not.

A text is cut at its special tokens and where an answer begins or ends, and each stretch is encoded
by itself. So the ids before an answer are exactly those that the model is given when it is to write
one, and no token stands half in a prompt and half in its answer.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from pellucid.json_text import json_text
from pellucid.reader import parse_json_table, parse_tokenizer
from pellucid.tokenizers import Tokenizer

Spans = Sequence[Sequence[int]]


class Spelled(NamedTuple):
    """Ids; for each 1 where it lies in an answer, else 0; whether a special token ends the last
    answer; and where that answer begins.
    """

    ids: list[int]
    supervised: list[int]
    ends: bool
    last_answer: int


class Spelling:
    """How one tokenizer spells chats."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        table = parse_json_table(tokenizer.to_json(), "the tokenizer")
        special = [token for token in table["added_tokens"] if token["special"]]
        self._special = {token["content"]: token for token in special}
        #: The names of all special tokens.
        self.special = sorted(self._special, key=len, reverse=True)
        self._names = re.compile("|".join(map(re.escape, self.special)))
        self._tokenizer = tokenizer
        self._inner = tokenizer
        table["post_processor"] = None
        if _first_alone(table["pre_tokenizer"]):  # the mark of a text's begin, which others lack
            self._inner = Tokenizer(
                parse_tokenizer(json_text(table), "the tokenizer"),
                (tokenizer.token(tokenizer.begin_id), tokenizer.token(tokenizer.end_id)),
            )

    def spelled(self, text: str, contents: Spans, answers: Spans) -> Spelled:
        """The ids of a whole chat: begun as documents are, and ended where its last answer ends it.

        Args:
            contents: what the messages said; a special token's name in there is text.
            answers: what is to be learned.
        """
        ids: list[int] = []
        supervised: list[int] = []
        edges = sorted({edge for span in answers for edge in span})
        starts = [span[0] for span in answers]
        ends, last_answer = False, 0
        for start, end, token in self._stretches(text, contents, edges):
            span = bisect_right(starts, start) - 1
            inside = span >= 0 and start < answers[span][1]
            if starts and start == starts[-1]:
                last_answer, ends = len(ids), False
            stretch_ids = self._of(text[start:end], start) if token is None else [token]
            ids += stretch_ids
            supervised += [int(inside)] * len(stretch_ids)
            ends = ends or (inside and token is not None)
        if ids[:1] != [self._tokenizer.begin_id] or supervised[0]:
            ids.insert(0, self._tokenizer.begin_id)
            supervised.insert(0, 0)
            last_answer += 1
        if answers and answers[-1][1] == len(text) and not ends:
            ids.append(self._tokenizer.end_id)
            supervised.append(1)
            ends = True
        return Spelled(ids, supervised, ends, last_answer)

    def _of(self, text: str, start: int) -> list[int]:
        return (self._tokenizer if start == 0 else self._inner).encode(text)

    def _stretches(
        self, text: str, contents: Spans, edges: list[int]
    ) -> list[tuple[int, int, int | None]]:
        """The text cut up: from, to, and the id of a special token where one stands there."""
        stretches: list[tuple[int, int, int | None]] = []
        place = 0
        for start, end, name in self._find_special(text, contents):
            token = self._special[name]
            leading, behind = text[place:start], text[end:]
            cut_at = start - (len(leading) - len(leading.rstrip()) if token["lstrip"] else 0)
            stretches += _cut(place, cut_at, edges)
            stretches.append((start, end, self._tokenizer.id_of(name)))
            place = end + (len(behind) - len(behind.lstrip()) if token["rstrip"] else 0)
        return stretches + _cut(place, len(text), edges)

    def _find_special(self, text: str, contents: Spans) -> list[tuple[int, int, str]]:
        """The special tokens that the template wrote, the longest where two begin alike."""
        specials: list[tuple[int, int, str]] = []
        begins, place = [span[0] for span in contents], 0
        while match := self._names.search(text, place):
            start, end = match.span()
            span = bisect_right(begins, end - 1) - 1
            if span >= 0 and contents[span][1] > start:
                place = start + 1
            else:
                specials.append((start, end, match[0]))
                place = end
        return specials


def _cut(start: int, end: int, edges: list[int]) -> list[tuple[int, int, int | None]]:
    places = [start, *(edge for edge in edges if start < edge < end), end]
    return [(a, b, None) for a, b in pairwise(places) if a < b]


def _first_alone(cut: dict[str, Any] | None) -> bool:
    """Whether the begin of a text is marked, and no other place; makes it unmarked in `cut`."""
    if cut is None:
        return False
    marks = [_first_alone(pretokenizer) for pretokenizer in cut.get("pretokenizers", [])]
    if cut.get("prepend_scheme") == "first":
        cut["prepend_scheme"] = "never"
        return True
    return any(marks)
