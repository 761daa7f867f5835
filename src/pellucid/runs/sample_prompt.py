"""The sentence that a run completes while it learns: the beginning of a held-out text.

A config that names a sentence keeps it. The choice is the same each time: nothing is random.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from pellucid import config
from pellucid.data import Examples, PreparedData
from pellucid.tokenizers import Tokenizer

#: Documents to look at, tokens of each, and the words and characters of a beginning.
_DOCUMENTS, _TOKENS, _WORDS, _CHARACTERS = 64, 96, 4, 40
#: A beginning with fewer words is taken only if no line has more.
_ENOUGH = 3


def with_sentence(run: config.Run, data: PreparedData, tokenizer: Tokenizer) -> config.Run:
    """The config with a beginning from the held-out text, unless it names a sentence.

    Args:
        run: the config.
        data: the prepared data.
        tokenizer: decodes the text.
    """
    if run.training.sentence or not data.is_text:
        return run
    sentence = beginning(data.held_out, tokenizer)
    return replace(run, training=replace(run.training, sentence=sentence))


def beginning(text: Examples, tokenizer: Tokenizer) -> str:
    """The first words of the first line that has enough of them; else the longest beginning."""
    beginnings = [
        words
        for start in islice(text.starts, _DOCUMENTS)
        for words in _beginnings(text, start, tokenizer)
    ]
    enough = (words for words in beginnings if len(words.split()) >= _ENOUGH)
    return next(enough, max(beginnings, key=len, default=""))


def _beginnings(text: Examples, start: int, tokenizer: Tokenizer) -> Iterator[str]:
    """The first words of each line at the beginning of the document from `start`."""
    ids = [int(token) for token in text.tokens[start : start + _TOKENS]]
    content_ids = ids[1:] if ids[:1] == [tokenizer.begin_id] else ids
    is_whole = len(ids) < _TOKENS or tokenizer.end_id in content_ids
    for last in (tokenizer.end_id, tokenizer.unknown_id):
        content_ids = content_ids[: content_ids.index(last)] if last in content_ids else content_ids
    lines = tokenizer.decode(content_ids).partition("\ufffd")[0].strip().split("\n")
    for place, line in enumerate(lines):
        words = line[: _CHARACTERS + 1].split(" ")
        # the last word may be cut: drop it, unless it is the only one or the line ends there
        ends = len(line) <= _CHARACTERS and (is_whole or place < len(lines) - 1)
        yield " ".join((words if ends else words[:-1] or words)[:_WORDS])[:_CHARACTERS].strip()
