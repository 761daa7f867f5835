"""The sentence whose continuation is shown while a run learns: a beginning from its held-out text.

Comes in: a config, prepared text. Goes out: the config with a sentence. A config that names one
keeps it. It is the same each time: nothing is drawn.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from pellucid import config
from pellucid.examples import StoredExamples
from pellucid.text import PreparedText, Shard, Tokenizer

#: Documents that are looked at, tokens of each, and the words and characters of a beginning.
_DOCUMENTS, _TOKENS, _WORDS, _CHARACTERS = 64, 48, 4, 40
#: A beginning of fewer words is taken only where no document has more.
_ENOUGH = 3


def with_sentence(
    run: config.Run, data: PreparedText | StoredExamples, tokenizer: Tokenizer
) -> config.Run:
    """The config with a beginning from the held-out text, where it names no sentence."""
    if run.training.sentence or not isinstance(data, PreparedText):
        return run
    sentence = beginning(data.held_out, tokenizer)
    return replace(run, training=replace(run.training, sentence=sentence))


def beginning(text: Shard, tokenizer: Tokenizer) -> str:
    """The first words of the first document that has some; "" where none has any."""
    found = (_first_words(text, start, tokenizer) for start in islice(text.starts, _DOCUMENTS))
    best = ""
    for words in found:
        if len(words.split()) >= _ENOUGH:
            return words
        best = best or words
    return best


def _first_words(text: Shard, start: int, tokenizer: Tokenizer) -> str:
    """The first words of the first line of the document that starts there."""
    ids = [int(token) for token in text.tokens[start : start + _TOKENS]]
    inside = ids[1:] if ids[:1] == [tokenizer.begin_id] else ids
    ends = [place for place, token in enumerate(inside) if token == tokenizer.end_id]
    inside = inside[: ends[0]] if ends else inside
    if tokenizer.unknown_id in inside:
        inside = inside[: inside.index(tokenizer.unknown_id)]
    line = next(iter(tokenizer.decode(inside).strip().split("\n")), "").partition("\ufffd")[0]
    words = line[: _CHARACTERS + 1].split(" ")
    # the last word may be cut: of several it is left out, unless the line ends there
    whole = words if len(line) <= _CHARACTERS and len(inside) < _TOKENS - 1 else words[:-1]
    return " ".join((whole or words)[:_WORDS])[:_CHARACTERS].strip()
