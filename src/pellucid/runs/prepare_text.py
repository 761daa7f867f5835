"""The text of a new run: taken from the cache, or read, divided and encoded.

The texts need not fit into memory: pellucid reads the corpus anew for each pass over it. Encoded
text goes to a workshop in the cache first, where the next process finds it if this one is stopped.
Without a cache it goes to the run's folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pellucid import config
from pellucid.cache_dir import cache_folder, private_folder
from pellucid.data import (
    DividedCorpus,
    HashCache,
    PreparedData,
    ReadCounts,
    Survey,
    assemble_corpus,
    assemble_tokenizer,
    cache,
    documents_of,
    fingerprint,
    part,
    prepare_documents,
    survey,
    training_texts,
)
from pellucid.disk import FolderInUse
from pellucid.errors import TextError
from pellucid.saved_runs.progress import ProgressReporter, Say, silent
from pellucid.tokenizers import Tokenizer, with_mask, with_sentinels

Fill = Callable[[Path], PreparedData]


@dataclass(frozen=True, slots=True)
class Ready:
    """A tokenizer, a function that writes the encoded data into a folder, and any classes."""

    tokenizer: Tokenizer
    fill: Fill
    classes: tuple[str, ...] | None = None


def ready_text(text: config.Text, say: Say, now: Say = silent) -> tuple[Tokenizer, Fill]:
    """The tokenizer of a text, and what puts the encoded text into a folder.

    Text that was prepared before from the same content and config is taken from the cache.

    Args:
        say: told what is begun.
        now: told every few seconds how far it has come.

    Raises:
        TextError: the text cannot be read, or is too small.
    """
    say("reading the text")
    place = _place(say)
    remembered = None if place is None else HashCache(place.parent / "file-hashes.json")
    key = None if remembered is None else fingerprint(text, remembered)
    if place is None or remembered is None or key is None:
        return _prepared(text, say, now)
    entry = place / key
    try:
        tokenizer = cache.load_tokenizer(entry)
    except TextError as error:
        say(f"preparing the text anew ({error})")
        cache.drop(entry)
        tokenizer = None
    if tokenizer is not None:
        say(f"taking the text as it was prepared before, from {place}")
        return tokenizer, lambda folder: cache.take(entry, folder)
    return _prepared(text, say, now, entry, lambda: fingerprint(text, remembered) == key)


def _prepared(
    text: config.Text,
    say: Say,
    say_progress: Say,
    entry: Path | None = None,
    unchanged: Callable[[], bool] = lambda: False,
) -> tuple[Tokenizer, Fill]:
    tally = ReadCounts()
    _, parts = survey_and_divide(text, tally, say_progress)
    workshop = None if entry is None else _workshop(entry, say)
    say("training the tokenizer")
    tokenizer = _tokenizer(text, parts, workshop, say_progress)

    def encode(folder: Path) -> PreparedData:
        total = parts.train.n_bytes + parts.held_out.n_bytes
        return prepare_documents(
            folder,
            parts,
            tokenizer,
            tally,
            ProgressReporter(say_progress, "encoding the text", total),
        )

    def fill(folder: Path) -> PreparedData:
        say("encoding the text")
        if workshop is not None:
            try:
                workshop.keep_tokenizer(tokenizer, parts.sha256)
                encode(workshop.text)
            except OSError as error:
                _say_not_kept(say, error)
                workshop.clear()
            else:
                # where the text was changed while it was read, nobody knows what the key stands for
                prepared = cache.take(workshop.finish() if unchanged() else workshop.entry, folder)
                workshop.clear()
                return prepared
        return encode(folder)

    return tokenizer, fill


def _tokenizer(
    text: config.Text, parts: DividedCorpus, workshop: cache.Workshop | None, say_progress: Say
) -> Tokenizer:
    cached = None if workshop is None else workshop.tokenizer(parts.sha256)
    if cached is not None:
        return cached
    tokenizer = train_tokenizer(text, parts, say_progress)
    if workshop is not None:
        with suppress(OSError):  # a full disk is said when the text is encoded
            workshop.keep_tokenizer(tokenizer, parts.sha256)
    return tokenizer


def survey_and_divide(
    text: config.Text, tally: ReadCounts, now: Say
) -> tuple[Survey, DividedCorpus]:
    """What a corpus holds, and its two sides; `tally` counts what was read and left out.

    Raises:
        TextError: the corpus cannot be read, or is too small.
    """
    read = assemble_corpus(documents_of(text))
    pieces = ProgressReporter(now, "reading the text").along(read(tally))
    corpus_survey = survey(pieces, tally, drop_duplicates=text.drop_duplicates)
    return corpus_survey, part(lambda: read(ReadCounts()), corpus_survey, text.held_out)


def train_tokenizer(text: config.Text, parts: DividedCorpus, now: Say) -> Tokenizer:
    """The tokenizer that `text` describes; one that is trained sees the training side alone."""
    watch = ProgressReporter(now, "training the tokenizer", parts.train.n_bytes)
    return tokenizer_of(text, training_texts(parts.train.pieces(), watch))


def tokenizer_of(text: config.Text, texts: Iterable[str]) -> Tokenizer:
    """The same, trained on `texts` where it is trained; with the special tokens that are needed."""
    tokenizer = assemble_tokenizer(text.tokenizer, texts)
    if "mask" in text.special:
        tokenizer = with_mask(tokenizer)
    return with_sentinels(tokenizer) if "sentinels" in text.special else tokenizer


def _place(say: Say) -> Path | None:
    """Where prepared text is kept; None where it is not, or where others could change it."""
    folder = cache_folder("text")
    if folder is None:
        return None
    try:
        place = private_folder(folder)
    except OSError as error:
        _say_not_kept(say, error)
        return None
    if place is None:
        say(
            f"neither taking nor keeping prepared text: other users can write to {folder} or to a "
            "folder above it; take that right away (chmod go-w), or see PELLUCID_CACHE"
        )
    return place


def _workshop(entry: Path, say: Say) -> cache.Workshop | None:
    try:
        return cache.Workshop(entry)
    except FolderInUse:
        say("not sharing this work: another process prepares the same text")
    except OSError as error:
        _say_not_kept(say, error)
    return None


def _say_not_kept(say: Say, error: OSError) -> None:
    say(f"not keeping the prepared text for later ({error}): see PELLUCID_CACHE")
