"""A rendered chat as token ids: only the template can write special tokens, not the messages.

The text is cut at its special tokens and at both ends of each answer, and each stretch is encoded
separately. So the ids before an answer are exactly the prompt of the model when it generates, and
no token is half in a prompt and half in its answer.
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


class ChatTokens(NamedTuple):
    """The ids of a chat.

    Attributes:
        ids: the token ids.
        supervised: 1 for each id in an answer, else 0.
        ends: whether a special token ends the last answer.
        last_answer: the place of the first id of the last answer.
    """

    ids: list[int]
    supervised: list[int]
    ends: bool
    last_answer: int


class ChatEncoder:
    """Encodes rendered chats with one tokenizer."""

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
        if _first_alone(table["pre_tokenizer"]):  # a mark at the begin of the text only
            self._inner = Tokenizer(
                parse_tokenizer(json_text(table), "the tokenizer"),
                (tokenizer.token(tokenizer.begin_id), tokenizer.token(tokenizer.end_id)),
            )

    def encode(self, text: str, contents: Spans, answers: Spans) -> ChatTokens:
        """The ids of a complete chat, with begin and end like a document.

        Args:
            text: the rendered chat.
            contents: the spans of the messages; the name of a special token in them is text.
            answers: the spans that the model learns.
        """
        ids: list[int] = []
        supervised: list[int] = []
        edges = sorted({edge for span in answers for edge in span})
        starts = [span[0] for span in answers]
        ends, last_answer = False, 0
        for start, end, token in self._stretches(text, contents, edges):
            span = bisect_right(starts, start) - 1
            in_answer = span >= 0 and start < answers[span][1]
            if starts and start == starts[-1]:
                last_answer, ends = len(ids), False
            stretch_ids = self._encode_stretch(text[start:end], start) if token is None else [token]
            ids += stretch_ids
            supervised += [int(in_answer)] * len(stretch_ids)
            ends = ends or (in_answer and token is not None)
        if ids[:1] != [self._tokenizer.begin_id] or supervised[0]:
            ids.insert(0, self._tokenizer.begin_id)
            supervised.insert(0, 0)
            last_answer += 1
        if answers and answers[-1][1] == len(text) and not ends:
            ids.append(self._tokenizer.end_id)
            supervised.append(1)
            ends = True
        return ChatTokens(ids, supervised, ends, last_answer)

    def _encode_stretch(self, text: str, start: int) -> list[int]:
        return (self._tokenizer if start == 0 else self._inner).encode(text)

    def _stretches(
        self, text: str, contents: Spans, edges: list[int]
    ) -> list[tuple[int, int, int | None]]:
        """The stretches of the text: start, end, and the id if it is a special token."""
        stretches: list[tuple[int, int, int | None]] = []
        place = 0
        for start, end, name in self._find_special(text, contents):
            token = self._special[name]
            leading, trailing = text[place:start], text[end:]
            cut_at = start - (len(leading) - len(leading.rstrip()) if token["lstrip"] else 0)
            stretches += _cut(place, cut_at, edges)
            stretches.append((start, end, self._tokenizer.id_of(name)))
            place = end + (len(trailing) - len(trailing.lstrip()) if token["rstrip"] else 0)
        return stretches + _cut(place, len(text), edges)

    def _find_special(self, text: str, contents: Spans) -> list[tuple[int, int, str]]:
        """The special tokens from the template; of two with the same begin, the longer."""
        specials: list[tuple[int, int, str]] = []
        content_starts, place = [span[0] for span in contents], 0
        while match := self._names.search(text, place):
            start, end = match.span()
            span = bisect_right(content_starts, end - 1) - 1
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
    """Whether only the begin of a text gets a mark; if so, remove the mark from `cut`."""
    if cut is None:
        return False
    marks = [_first_alone(pretokenizer) for pretokenizer in cut.get("pretokenizers", [])]
    if cut.get("prepend_scheme") == "first":
        cut["prepend_scheme"] = "never"
        return True
    return any(marks)
