"""Prepared data: token ids in memory-mapped ragged arrays, with checksums.

A document is an example with one column, "text". Examples of rows have the columns of their form:

    text.json, examples.json   counts, checksums, the hash of the tokenizer
    train.npy                  the tokens of all documents of the training side, end to end,
    train.starts.npy           and where each document starts
    train.ids.npy              a column of examples: all its numbers, end to end,
    train.ids.starts.npy       and where those of each example start
    train.rows.npy             the row of each example
    train.texts.jsonl          the rows themselves, if a reward needs them

pellucid writes the folder under a temporary name and renames it at the end, so it never uses an
unfinished one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from pellucid import config
from pellucid.config import decode
from pellucid.data.manifest import (
    DIGESTS,
    EXAMPLE_MANIFEST,
    SIDES,
    TEXT_MANIFEST,
    TOKENS,
    Manifest,
    ShardFacts,
    SideFacts,
)
from pellucid.data.order import Ring
from pellucid.data.shards import RemoteTokens
from pellucid.errors import PellucidError, TextError
from pellucid.reader import LARGE, file_sha256, read_json_table, read_text

Indices = npt.NDArray[np.int64]

#: Lists in one block of a copy.
_CHUNK = 4096

#: The only column of a document.
TEXT = "text"


def gather(
    flat: npt.NDArray[Any], starts: npt.NDArray[Any], places: Indices
) -> Iterator[tuple[npt.NDArray[Any], Indices]]:
    """The lists at `places`, end to end, in blocks of a few thousand, and their lengths."""
    ends = np.append(starts[1:], len(flat))
    for first in range(0, len(places), _CHUNK):
        chunk = places[first : first + _CHUNK]
        lengths = ends[chunk] - starts[chunk]
        shifts = starts[chunk] - np.cumsum(lengths) + lengths
        yield flat[np.repeat(shifts, lengths) + np.arange(lengths.sum())], lengths


@dataclass(frozen=True, slots=True, eq=False)
class Ragged:
    """Lists of whole numbers of any length, end to end; list i starts at `starts[i]`.

    Attributes:
        flat: all numbers.
        starts: where each list begins.
    """

    flat: npt.NDArray[Any]
    starts: npt.NDArray[Any]

    @property
    def lengths(self) -> Indices:
        """The length of each list."""
        return np.diff(self.starts.astype(np.int64), append=len(self.flat))

    def __len__(self) -> int:
        return len(self.starts)

    def take(self, chosen: Indices) -> Ragged:
        """The lists at these places, one or more."""
        lists = [self[int(place)] for place in chosen]
        ends = np.cumsum([len(row) for row in lists])
        return Ragged(np.concatenate(lists), np.concatenate(([0], ends[:-1])))

    def __getitem__(self, index: int) -> Indices:
        end = self.starts[index + 1] if index + 1 < len(self.starts) else len(self.flat)
        return self.flat[int(self.starts[index]) : int(end)].astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """One side of prepared data.

    Attributes:
        columns: the columns by name.
        rows: the row of each example; empty for documents.
        texts: the rows as JSON, if they are stored.
        n_bytes: the bytes of the texts of documents; 0 for examples of rows.
    """

    columns: Mapping[str, Ragged]
    rows: npt.NDArray[Any]
    texts: Sequence[str] | None = None
    n_bytes: int = 0

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    @property
    def tokens(self) -> npt.NDArray[Any]:
        """The tokens of all documents, end to end."""
        return self.columns[TEXT].flat

    @property
    def starts(self) -> npt.NDArray[Any]:
        """The place of the first token of each document."""
        return self.columns[TEXT].starts

    @property
    def longest_row(self) -> int:
        """The tokens of the longest row of any column."""
        return max(int(column.lengths.max(initial=1)) for column in self.columns.values())

    def spread(self, n: int) -> Examples:
        """`n` examples, evenly spaced because rows are often sorted."""
        if n >= len(self):
            return self
        chosen = np.arange(n, dtype=np.int64) * len(self) // n
        columns = {name: column.take(chosen) for name, column in self.columns.items()}
        texts = None if self.texts is None else [self.texts[int(place)] for place in chosen]
        return Examples(columns, self.rows[chosen], texts)


@dataclass(frozen=True, slots=True, eq=False)
class PreparedData:
    """Both sides, memory-mapped, their manifest, and the counts of rows as JSON.

    Attributes:
        train: examples to learn from.
        held_out: examples to evaluate on.
        manifest: how they were made.
        census: counts of rows.
    """

    train: Examples
    held_out: Examples
    manifest: Manifest
    census: Mapping[str, Any]

    @property
    def is_text(self) -> bool:
        """Whether the data are documents, not rows."""
        return isinstance(self.manifest.train, ShardFacts)


def open_prepared(
    folder: Path, *, verify: bool = False, corpus: config.Corpus | None = None
) -> PreparedData:
    """Map the prepared data in `folder`.

    Args:
        folder: the folder.
        verify: compare every checksum.
        corpus: of the run; the tokens to learn from may lie at its URL instead.

    Raises:
        TextError: a file is missing, has another format, or does not match its checksum.
    """
    try:
        name = EXAMPLE_MANIFEST if (folder / EXAMPLE_MANIFEST).exists() else TEXT_MANIFEST
        table = read_json_table(folder / name)
        census: dict[str, Any] = table.pop("census") if name == EXAMPLE_MANIFEST else {}
        manifest = decode(Manifest, table, name)
        remote = _find_remote(folder, manifest)
        train = (
            _open_side(folder, SIDES[0], manifest.train, verify)
            if remote is None
            else _open_remote(folder, manifest, remote, verify)
        )
        held_out = _open_side(folder, SIDES[1], manifest.held_out, verify)
    except (OSError, ValueError, KeyError, PellucidError) as error:
        raise TextError(
            f"the prepared data in {folder} are damaged or incomplete ({error}): start a new run "
            "from the same text or rows"
        ) from None
    if remote is not None and corpus is not None:
        remote.connect(corpus)
    return PreparedData(train, held_out, manifest, census)


def check_tokenizer(file: Path, sha256: str | None) -> None:
    """Refuse a stored tokenizer other than the one that encoded the data.

    Args:
        file: the stored tokenizer.
        sha256: the hash of the tokenizer that encoded the data; None accepts any.

    Raises:
        TextError: the tokenizer has changed.
    """
    file_hash = hashlib.sha256(read_text(file, limit=LARGE, refusal=TextError).encode()).hexdigest()
    if sha256 not in (None, file_hash):
        raise TextError(
            f"{file} is not the tokenizer that encoded the run's text: restore the run's own, or "
            "start a new run with text.tokenizer.kind=FromFile"
        )


def _find_remote(folder: Path, manifest: Manifest) -> RemoteTokens | None:
    """The tokens to learn from, if they are not in the folder."""
    if manifest.shards is None or (folder / TOKENS).exists():
        return None
    assert isinstance(manifest.train, ShardFacts)
    return RemoteTokens(manifest.shards, manifest.train.n_tokens, _map(folder / DIGESTS))


def _open_remote(folder: Path, manifest: Manifest, tokens: RemoteTokens, verify: bool) -> Examples:
    """The training side of documents whose tokens lie at a URL."""
    facts, shards = manifest.train, manifest.shards
    assert isinstance(facts, ShardFacts)
    assert shards is not None
    checksums = {"train.starts.npy": facts.starts_sha256, DIGESTS: shards.digests_sha256}
    _check_files(folder, checksums, verify)
    # they have the length and the indexing of an array
    column = Ragged(cast("npt.NDArray[Any]", tokens), _map(folder / "train.starts.npy"))
    return Examples({TEXT: column}, np.zeros(0, dtype=np.int64), n_bytes=facts.n_bytes)


def _check_files(folder: Path, checksums: Mapping[str, str], verify: bool) -> None:
    for name, sha256 in checksums.items():
        if not (folder / name).is_file():  # a device or a pipe may never end
            raise ValueError(f"{name} is missing, or not a file")
        if verify and file_sha256(folder / name) != sha256:
            raise ValueError(f"{name} does not match its checksum")


def _open_side(folder: Path, side: str, facts: ShardFacts | SideFacts, verify: bool) -> Examples:
    if isinstance(facts, ShardFacts):
        stems = {TEXT: side}
        checksums = {
            f"{side}.npy": facts.tokens_sha256,
            f"{side}.starts.npy": facts.starts_sha256,
        }
    else:
        stems = {name: f"{side}.{name}" for name in facts.columns}
        checksums = {file.name: file.sha256 for file in facts.files}
    _check_files(folder, checksums, verify)
    columns = {
        name: Ragged(_map(folder / f"{stem}.npy"), _map(folder / f"{stem}.starts.npy"))
        for name, stem in stems.items()
    }
    if isinstance(facts, ShardFacts):
        return Examples(columns, np.zeros(0, dtype=np.int64), n_bytes=facts.n_bytes)
    texts = None
    if f"{side}.texts.jsonl" in checksums:
        # not splitlines, which also splits at characters that end no line
        content = read_text(folder / f"{side}.texts.jsonl", limit=LARGE)
        texts = tuple(content.split("\n")[:-1])
    rows = _map(folder / f"{side}.rows.npy")
    counts = {len(rows), len(texts or rows), *(len(column) for column in columns.values())}
    if counts != {facts.examples}:
        raise ValueError(f"{side} does not have the {facts.examples} examples that were written")
    return Examples(columns, rows, texts)


def _map(file: Path) -> npt.NDArray[Any]:
    return np.load(file, mmap_mode="r")


def rings_of(text: config.Text, data: PreparedData) -> tuple[Ring, ...]:
    """The parts of the training side that a mixture mixes; empty if nothing is mixed."""
    weights, documents = weights_of(text.corpus), data.manifest.sources
    if data.manifest.shards is not None:
        weights = data.manifest.shards.weights
    if weights is None or documents is None:
        return ()
    starts = np.append(data.train.starts, len(data.train.tokens))
    bounds = starts[np.cumsum([0, *documents])].tolist()
    return tuple(
        Ring(first, end - first, weight)
        for (first, end), weight in zip(pairwise(bounds), weights, strict=True)
    )


def weights_of(corpus: config.Corpus) -> tuple[float, ...] | None:
    """The weights of a mixture; None of another corpus."""
    if not isinstance(corpus, config.Mixture):
        return None
    return tuple(source.weight for source in corpus.sources)
