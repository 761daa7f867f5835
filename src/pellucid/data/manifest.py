"""The manifest of prepared data: counts, checksums and the names of all files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pellucid.config import decode, encode
from pellucid.data.array_writer import JOURNAL
from pellucid.data.documents import ReadCounts
from pellucid.errors import ConfigError
from pellucid.json_text import json_text
from pellucid.reader import read_json_table
from pellucid.version import READABLE

#: The longest header of an array, and the largest shard that is read at once.
_LARGEST_OFFSET, _LARGEST_SHARD = 2**16, 2**30

SIDES = ("train", "held_out")
TEXT_MANIFEST, EXAMPLE_MANIFEST = "text.json", "examples.json"
#: While examples are encoded: their numbers, the starts of their columns, their row numbers, the
#: digests of their groups, and the rows as JSON. They are removed when both sides are written.
STAGED: Mapping[str, type[np.generic]] = {
    "all": np.uint32,
    "all.starts": np.int64,
    "all.rows": np.int64,
    "all.groups": np.uint8,
    "all.texts": np.uint8,
    "all.texts.starts": np.int64,
}
#: The tokens of the training side of documents.
TOKENS = "train.npy"
#: The SHA-256 of each shard of the training side, (shards, 32).
DIGESTS = "train.shards.npy"
#: All files of a folder of documents, finished or not.
TEXT_FILES = (
    TEXT_MANIFEST,
    *(f"{side}{ending}.npy" for side in SIDES for ending in ("", ".starts")),
    DIGESTS,
    JOURNAL,
)
#: All files of a folder of prepared data, finished or not.
DATA_FILES = (
    *TEXT_FILES,
    EXAMPLE_MANIFEST,
    *(f"{side}.{ending}" for side in SIDES for ending in ("*.npy", "texts.jsonl")),
    *(f"{name}.npy" for name in STAGED),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardFacts:
    """Counts of one side of documents, its share of unknown tokens, and its files' checksums.

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
class FileFacts:
    """One file of the folder, and its SHA-256."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SideFacts:
    """How many examples a side has, which columns, and its files' checksums."""

    examples: int
    columns: tuple[str, ...]
    files: tuple[FileFacts, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardTable:
    """How the tokens of `train.npy` are cut into shards, and what they were prepared with.

    Attributes:
        offset: the first byte of a token in the file.
        n_bytes: of the file.
        shard_bytes: of each shard but the last, which may have fewer.
        dtype: the type of a token.
        digests_sha256: of the file with the SHA-256 of each shard.
        settings_sha256: of the tokenizer's settings, if it has some.
        held_out: the share that was held out.
        drop_duplicates: whether repeated documents were left out.
        weights: of a mixture, the weight of each source.
    """

    offset: int
    n_bytes: int
    shard_bytes: int
    dtype: Literal["uint16", "uint32"]
    digests_sha256: str
    settings_sha256: str | None = None
    held_out: float
    drop_duplicates: bool
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        """Refuse a table by which no file can be read.

        Raises:
            ConfigError: a number is impossible.
        """
        if not (
            0 < self.offset <= _LARGEST_OFFSET
            and self.n_bytes > self.offset
            and 0 < self.shard_bytes <= _LARGEST_SHARD
            and self.shard_bytes % np.dtype(self.dtype).itemsize == 0
        ):
            raise ConfigError(
                f"shards: {self.n_bytes} bytes cannot be cut from byte {self.offset} on into "
                f"shards of {self.shard_bytes}"
            )

    @property
    def n_shards(self) -> int:
        """The number of shards."""
        return -(-(self.n_bytes - self.offset) // self.shard_bytes)

    @property
    def shard_tokens(self) -> int:
        """The tokens of a shard."""
        return self.shard_bytes // np.dtype(self.dtype).itemsize


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """`text.json`, or `examples.json` without its counts of rows.

    Attributes:
        format: the version of the layout.
        sha256: of documents, the hash of all texts.
        split_by: of documents, whether whole "documents" or their "tails" are held out.
        tokenizer_sha256: the hash of the tokenizer.
        classes: of rows with labels, the names of the classes in the order of their numbers.
        train: the facts of the training side.
        held_out: the facts of the held-out side.
        read: of documents, the counts of reading, if they came from a corpus of a config.
        sources: of a mixture, how many documents of the training side each source has.
        shards: of a folder that `pellucid data prepare` made, how it can be read in parts.
    """

    format: int
    sha256: str | None = None
    split_by: str | None = None
    tokenizer_sha256: str | None = None
    classes: tuple[str, ...] | None = None
    train: ShardFacts | SideFacts
    held_out: ShardFacts | SideFacts
    read: ReadCounts | None = None
    sources: tuple[int, ...] | None = None
    shards: ShardTable | None = None

    def __post_init__(self) -> None:
        """Refuse a manifest without the facts of its kind.

        Raises:
            ConfigError: a key is missing.
        """
        documents = isinstance(self.train, ShardFacts)
        for key in ("sha256", "split_by") if documents else ("tokenizer_sha256",):
            if getattr(self, key) is None:
                raise ConfigError(f"missing {key!r}")
        if self.format not in READABLE:
            raise ConfigError(f"format {self.format}, this version reads {READABLE}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts about examples of rows.

    Attributes:
        tokenizer_sha256: the hash of the tokenizer.
        classes: the names of the classes in the order of their numbers.
        census: the counts of rows, as JSON.
    """

    tokenizer_sha256: str
    classes: tuple[str, ...] | None
    census: Mapping[str, Any]


def read_manifest(folder: Path) -> Manifest:
    """The manifest of documents.

    Raises:
        PellucidError: it is missing or damaged.
    """
    return decode(Manifest, read_json_table(folder / TEXT_MANIFEST), TEXT_MANIFEST)


def write_manifest(
    folder: Path, manifest: Manifest, census: Mapping[str, Any] | None = None
) -> None:
    """Write the manifest of prepared data.

    Args:
        folder: the folder of the data.
        manifest: the manifest.
        census: the counts of rows, as JSON; None for documents.
    """
    table = encode(manifest) | ({} if census is None else {"census": dict(census)})
    name = TEXT_MANIFEST if census is None else EXAMPLE_MANIFEST
    (folder / name).write_text(json_text(table, indent=2), encoding="utf-8")
