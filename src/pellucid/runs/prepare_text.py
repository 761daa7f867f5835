"""The text of a new run: taken from the cache, or read, divided and encoded.

The texts need not fit into memory: pellucid reads the corpus anew for each pass over it. Encoded
text goes to a workshop in the cache first. If this process is stopped, the next one finds it there.
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
    source_hashes,
    survey,
    training_texts,
)
from pellucid.disk import FolderInUse
from pellucid.errors import TextError
from pellucid.runs.ready_folder import ready_folder
from pellucid.saved_runs.progress import Notify, ProgressReporter, silent
from pellucid.tokenizers import Tokenizer, with_mask, with_sentinels

Fill = Callable[[Path], PreparedData]


@dataclass(frozen=True, slots=True)
class Ready:
    """A tokenizer, a function that writes the encoded data into a folder, and any classes."""

    tokenizer: Tokenizer
    fill: Fill
    classes: tuple[str, ...] | None = None


def ready_text(
    text: config.Text,
    notify: Notify,
    notify_progress: Notify = silent,
    *,
    n_processes: int = 1,
) -> tuple[Tokenizer, Fill]:
    """The tokenizer of a text, and a function that puts the encoded text into a folder.

    The cache has the text if it was prepared before from the same content and config.

    Args:
        text: the config of the text.
        notify: takes a line for each step that begins.
        notify_progress: takes a line every few seconds.
        n_processes: how many processes encode the text.

    Raises:
        TextError: the text cannot be read, or is too small.
    """
    if isinstance(text.corpus, config.Prepared):
        tokenizer, fill = ready_folder(text, text.corpus, notify)
        return with_special(text, tokenizer), fill
    notify("reading the text")
    place = _place(notify)
    hash_cache = None if place is None else HashCache(place.parent / "file-hashes.json")
    key = None if hash_cache is None else fingerprint(text, hash_cache)
    if place is None or hash_cache is None or key is None:
        return _prepared(text, notify, notify_progress, n_processes)
    entry = place / key
    try:
        tokenizer = cache.load_tokenizer(entry)
    except TextError as error:
        notify(f"preparing the text anew ({error})")
        cache.drop(entry)
        tokenizer = None
    if tokenizer is not None:
        notify(f"taking the prepared text from {place}")
        return tokenizer, lambda folder: cache.take(entry, folder)
    return _prepared(
        text,
        notify,
        notify_progress,
        n_processes,
        entry,
        lambda: fingerprint(text, hash_cache) == key,
    )


def _prepared(
    text: config.Text,
    notify: Notify,
    notify_progress: Notify,
    n_processes: int,
    entry: Path | None = None,
    unchanged: Callable[[], bool] = lambda: False,
) -> tuple[Tokenizer, Fill]:
    tally = ReadCounts()
    _, parts = survey_and_divide(text, tally, notify_progress)
    workshop = None if entry is None else _workshop(entry, notify)
    notify("training the tokenizer")
    tokenizer = _tokenizer(text, parts, workshop, notify_progress)

    def encode(folder: Path) -> PreparedData:
        corpus = text.corpus
        total = parts.train.n_bytes + parts.held_out.n_bytes
        return prepare_documents(
            folder,
            parts,
            tokenizer,
            tally,
            ProgressReporter(notify_progress, "encoding the text", total),
            len(corpus.sources) if isinstance(corpus, config.Mixture) else None,
            n_processes=n_processes,
        )

    def fill(folder: Path) -> PreparedData:
        notify("encoding the text")
        if workshop is not None:
            try:
                workshop.keep_tokenizer(tokenizer, parts.sha256)
                encode(workshop.text)
            except OSError as error:
                _notify_not_kept(notify, error)
                workshop.clear()
            else:
                # a text that changed while pellucid read it has no key
                prepared = cache.take(workshop.finish() if unchanged() else workshop.entry, folder)
                workshop.clear()
                return prepared
        return encode(folder)

    return tokenizer, fill


def _tokenizer(
    text: config.Text,
    parts: DividedCorpus,
    workshop: cache.Workshop | None,
    notify_progress: Notify,
) -> Tokenizer:
    cached = None if workshop is None else workshop.tokenizer(parts.sha256)
    if cached is not None:
        return cached
    tokenizer = train_tokenizer(text, parts, notify_progress)
    if workshop is not None:
        with suppress(OSError):  # encoding the text reports a full disk
            workshop.keep_tokenizer(tokenizer, parts.sha256)
    return tokenizer


def survey_and_divide(
    text: config.Text, tally: ReadCounts, notify: Notify
) -> tuple[Survey, DividedCorpus]:
    """The contents of a corpus, and its two sides; `tally` counts files and documents.

    Args:
        text: the config of the text.
        tally: counts documents that pellucid reads and leaves out.
        notify: takes a line every few seconds.

    Raises:
        TextError: the corpus cannot be read, or is too small.
    """
    read = assemble_corpus(documents_of(text))
    pieces = ProgressReporter(notify, "reading the text").track(read(tally))
    corpus_survey = survey(pieces, tally, drop_duplicates=text.drop_duplicates)
    return corpus_survey, part(lambda: read(ReadCounts()), corpus_survey, text.held_out)


def train_tokenizer(text: config.Text, parts: DividedCorpus, notify: Notify) -> Tokenizer:
    """The tokenizer that `text` describes; it is trained on the training side only."""
    watch = ProgressReporter(notify, "training the tokenizer", parts.train.n_bytes)
    return tokenizer_of(text, training_texts(parts.train.pieces(), watch))


def tokenizer_of(text: config.Text, texts: Iterable[str]) -> Tokenizer:
    """The tokenizer with its special tokens, trained on `texts` if it needs training."""
    return with_special(text, assemble_tokenizer(text.tokenizer, texts))


def with_special(text: config.Text, tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer with the special tokens that `text` names.

    Raises:
        TextError: it comes from a file and lacks one.
    """
    if "mask" in text.special:
        tokenizer = with_mask(tokenizer)
    return with_sentinels(tokenizer) if "sentinels" in text.special else tokenizer


def data_file_hashes(text: config.Text) -> dict[str, list[dict[str, str]]]:
    """The names and the hashes of the files of a corpus, without their folders."""
    place = _place(silent)
    hash_cache = HashCache(None if place is None else place.parent / "file-hashes.json")
    files = source_hashes(text, hash_cache)
    return {"files": [{"name": file.name, "sha256": file.sha256} for file in files]}


def _place(notify: Notify) -> Path | None:
    """The cache of prepared text; None if there is none, or if others could change it."""
    folder = cache_folder("text")
    if folder is None:
        return None
    try:
        place = private_folder(folder)
    except OSError as error:
        _notify_not_kept(notify, error)
        return None
    if place is None:
        notify(
            f"not using the cache of prepared text: other users can write to {folder} or to a "
            "folder above it; remove that right (chmod go-w), or see PELLUCID_CACHE"
        )
    return place


def _workshop(entry: Path, notify: Notify) -> cache.Workshop | None:
    try:
        return cache.Workshop(entry)
    except FolderInUse:
        notify("not sharing this work: another process prepares the same text")
    except OSError as error:
        _notify_not_kept(notify, error)
    return None


def _notify_not_kept(notify: Notify, error: OSError) -> None:
    notify(f"not keeping the prepared text for later ({error}): see PELLUCID_CACHE")
