"""Documents encoded once into memory-mapped arrays, with their boundaries and checksums.

pellucid writes the folder under a temporary name and renames it at the end. If it is interrupted,
the next process continues its work.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pellucid.config import decode, encode
from pellucid.data.array_writer import JOURNAL, Journal, Values
from pellucid.data.checksums import file_sha256, own_code
from pellucid.data.documents import ReadCounts
from pellucid.data.encode import EncodedCounts, OnProgress, encode_pieces, hash_pieces, id_type
from pellucid.data.pieces import LONGEST_PIECE
from pellucid.data.split import CorpusSide, DividedCorpus
from pellucid.data.store import StoredExamples
from pellucid.disk import Partial
from pellucid.errors import PellucidError, TextError
from pellucid.json_text import json_text
from pellucid.reader import LARGE, read_json, read_text
from pellucid.tokenizers.tokenizer import Tokenizer
from pellucid.version import FORMAT

Tokens = npt.NDArray[Any]

_MANIFEST = "text.json"
_ARRAYS = ("train.npy", "train.starts.npy", "held_out.npy", "held_out.starts.npy")
#: All files of a folder of prepared text, finished or not.
TEXT_FILES = (_MANIFEST, *_ARRAYS, JOURNAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardFacts:
    """Counts of one side, its share of unknown tokens, and its files' checksums.

    `changed` counts documents that decode to another text.
    """

    documents: int
    n_bytes: int
    n_tokens: int
    unknown: float
    changed: int | None
    tokens_sha256: str
    starts_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """`text.json`: the hash of the texts, their split, their tokenizer and the facts of both sides.

    `read` is None if the documents did not come from a corpus of a config.
    """

    format: int
    sha256: str
    split_by: str
    tokenizer_sha256: str | None
    train: ShardFacts
    held_out: ShardFacts
    read: ReadCounts | None


@dataclass(frozen=True, slots=True)
class Shard:
    """One side: all its tokens end to end, and where each document starts."""

    tokens: Tokens
    starts: Tokens
    n_bytes: int


@dataclass(frozen=True, slots=True)
class PreparedText:
    """Both sides, memory-mapped, and the manifest."""

    train: Shard
    held_out: Shard
    manifest: Manifest


#: The data of a run.
Data = PreparedText | StoredExamples


@dataclass(frozen=True, slots=True)
class Ready:
    """A tokenizer, a function that writes the encoded data into a folder, and any classes."""

    tokenizer: Tokenizer
    fill: Callable[[Path], Data]
    classes: tuple[str, ...] | None = None


def prepare(
    folder: Path,
    parts: DividedCorpus,
    tokenizer: Tokenizer,
    tally: ReadCounts | None = None,
    watch: OnProgress | None = None,
) -> PreparedText:
    """Encode both sides into `folder`, and map them from there.

    If a killed process has encoded a part of this text with this tokenizer, that part stays.

    Args:
        folder: the folder for the arrays.
        parts: the two sides.
        tokenizer: encodes them.
        tally: the counts of reading, for the manifest.
        watch: is called for every stretch.

    Raises:
        TextError: the text has changed since it was divided.
    """
    key_parts = [FORMAT, LONGEST_PIECE, parts.sha256, tokenizer.sha256, own_code()]
    key = hashlib.sha256(json_text(key_parts).encode()).hexdigest()
    partial = Partial(folder, TEXT_FILES, keep=TEXT_FILES)
    try:
        journal = Journal(partial.path, key)
        digest = hashlib.sha256()
        facts = {
            name: _write(journal, name, side, tokenizer, digest, watch)
            for name, side in (("train", parts.train), ("held_out", parts.held_out))
        }
        manifest = Manifest(
            format=FORMAT,
            sha256=digest.hexdigest(),
            split_by=parts.split_by,
            tokenizer_sha256=tokenizer.sha256,
            train=facts["train"],
            held_out=facts["held_out"],
            read=tally,
        )
        text = json_text(encode(manifest), indent=2)
        (partial.path / _MANIFEST).write_text(text, encoding="utf-8")
        journal.close()
        partial.place()
    except BaseException:
        partial.release()  # the next process continues with it
        raise
    return open_prepared(folder)


def open_prepared(folder: Path, *, verify: bool = False) -> PreparedText:
    """Map what `prepare` wrote; with `verify`, compare every checksum.

    Raises:
        TextError: a file is missing, has another format, or does not match its checksum.
    """
    try:
        manifest = decode(Manifest, read_json(folder / "text.json"), "text.json")
        return PreparedText(
            train=_open(folder, "train", manifest.train, verify),
            held_out=_open(folder, "held_out", manifest.held_out, verify),
            manifest=manifest,
        )
    except (OSError, ValueError, PellucidError) as error:
        raise TextError(
            f"the prepared text in {folder} is damaged or incomplete ({error}): start a new run "
            "from the same text"
        ) from None


def check_tokenizer(file: Path, sha256: str | None) -> None:
    """Refuse a stored tokenizer other than the one that encoded the text.

    Args:
        file: the stored tokenizer.
        sha256: the hash of the tokenizer that encoded the text; None accepts any.

    Raises:
        TextError: the tokenizer has changed.
    """
    file_hash = hashlib.sha256(read_text(file, limit=LARGE, refusal=TextError).encode()).hexdigest()
    if sha256 not in (None, file_hash):
        raise TextError(
            f"{file} is not the tokenizer that encoded the run's text: restore the run's own, or "
            "start a new run with text.tokenizer.kind=FromFile"
        )


def _write(
    journal: Journal,
    name: str,
    side: CorpusSide,
    tokenizer: Tokenizer,
    digest: Any,
    watch: OnProgress | None,
) -> ShardFacts:
    """Encode a side, after the part that an earlier process has encoded."""
    counts = EncodedCounts(**journal.counts(name))
    starts = f"{name}.starts"

    def values() -> Iterator[Values]:
        pieces = hash_pieces(side, digest)
        for encoding in encode_pieces(pieces, tokenizer, skip=counts.stretches, watch=watch):
            start = [counts.n_tokens] if encoding.first else []
            counts.add(encoding, tokenizer.unknown_id)
            yield {name: encoding.ids, starts: np.array(start, dtype=np.int64)}

    arrays = {name: id_type(tokenizer), starts: np.int64}
    journal.write(name, arrays, values(), lambda: asdict(counts))
    return ShardFacts(
        documents=counts.documents,
        n_bytes=counts.n_bytes,
        n_tokens=counts.n_tokens,
        unknown=counts.unknown / counts.n_tokens,
        changed=counts.lossy,
        tokens_sha256=file_sha256(journal.folder / f"{name}.npy"),
        starts_sha256=file_sha256(journal.folder / f"{starts}.npy"),
    )


def _open(folder: Path, name: str, facts: ShardFacts, verify: bool) -> Shard:
    tokens, starts = folder / f"{name}.npy", folder / f"{name}.starts.npy"
    for file in (tokens, starts):
        if not file.is_file():  # a device or a pipe may never end
            raise ValueError(f"{file.name} is missing, or not a file")
    if verify:
        for file, expected in ((tokens, facts.tokens_sha256), (starts, facts.starts_sha256)):
            if file_sha256(file) != expected:
                raise ValueError(f"{file.name} does not match its checksum")
    return Shard(
        tokens=np.load(tokens, mmap_mode="r"),
        starts=np.load(starts, mmap_mode="r"),
        n_bytes=facts.n_bytes,
    )
