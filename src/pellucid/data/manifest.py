"""The manifest of prepared data: counts, checksums and the names of all files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pellucid.config import encode
from pellucid.data.array_writer import JOURNAL
from pellucid.data.documents import ReadCounts
from pellucid.errors import ConfigError
from pellucid.json_text import json_text
from pellucid.version import READABLE

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
#: All files of a folder of documents, finished or not.
TEXT_FILES = (
    TEXT_MANIFEST,
    *(f"{side}{ending}.npy" for side in SIDES for ending in ("", ".starts")),
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
