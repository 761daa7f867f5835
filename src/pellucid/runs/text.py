"""The text of a new run: taken as it was prepared before, or read, split and encoded.

Comes in: a config's text. Goes out: its tokenizer, and a function that fills a run's folder. It
does not know models.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pellucid import config
from pellucid.errors import TextError
from pellucid.text import (
    PreparedText,
    Tokenizer,
    assemble_documents,
    assemble_tokenizer,
    cache,
    fingerprint,
    prepare,
    split,
)

Say = Callable[[str], None]
Fill = Callable[[Path], PreparedText]


def ready_text(text: config.Text, say: Say) -> tuple[Tokenizer, Fill]:
    """The tokenizer of a text, and what puts the encoded text into a folder.

    Text that was prepared before from the same content and config is taken from the cache.

    Raises:
        TextError: the text cannot be read, or is too small.
    """
    say("reading the text")
    place = cache.cache_folder()
    key = None if place is None else fingerprint(text)
    if place is None or key is None:
        return _prepared(text, say, keep=None)
    entry = place / key
    try:
        tokenizer = cache.kept(entry)
    except TextError as error:
        say(f"preparing the text anew ({error})")
        cache.drop(entry)
        tokenizer = None
    if tokenizer is not None:
        say(f"taking the text as it was prepared before, from {place}")
        return tokenizer, lambda folder: cache.take(entry, folder)

    def keep(folder: Path, made: Tokenizer) -> None:
        if fingerprint(text) != key:
            return  # it changed while it was read: nobody knows what this was made of
        try:
            cache.keep(entry, folder, made)
        except OSError as error:
            say(f"not keeping the prepared text for later ({error}): see PELLUCID_CACHE")

    return _prepared(text, say, keep=keep)


def _prepared(
    text: config.Text, say: Say, *, keep: Callable[[Path, Tokenizer], None] | None
) -> tuple[Tokenizer, Fill]:
    documents, tally = assemble_documents(text)
    parts = split(documents, text.held_out)
    say("training the tokenizer")
    tokenizer = assemble_tokenizer(text.tokenizer, parts.train)

    def fill(folder: Path) -> PreparedText:
        say("encoding the text")
        prepared = prepare(folder, parts, tokenizer, tally)
        if keep is not None:
            keep(folder, tokenizer)
        return prepared

    return tokenizer, fill
