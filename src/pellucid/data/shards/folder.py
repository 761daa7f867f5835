"""A folder of prepared text with its tokenizer, on this machine or at a URL, cut into shards."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from pellucid.data.manifest import (
    DIGESTS,
    TEXT_FILES,
    TEXT_MANIFEST,
    TOKENS,
    ShardTable,
    read_manifest,
    write_manifest,
)
from pellucid.disk import remove_file
from pellucid.errors import ConfigError, TextError
from pellucid.hub import UrlStore, is_url
from pellucid.reader import file_sha256, read_bytes
from pellucid.tokenizers.special_tokens import SETTINGS

TOKENIZER = "tokenizer.json"
#: All files of a prepared folder, finished or not.
FOLDER_FILES = (*TEXT_FILES, TOKENIZER, SETTINGS)


def prepared_folder(paths: Sequence[str], field: str | None) -> str | None:
    """The prepared folder, or its URL, that paths name; None if they name text.

    Args:
        paths: of a corpus.
        field: of a table, if one is named.

    Raises:
        ConfigError: there is more than one, or a field.
    """
    prepared = [path for path in paths if is_url(path) or (Path(path) / DIGESTS).is_file()]
    if not prepared:
        return None
    if len(paths) > 1:
        raise ConfigError(
            f"{prepared[0]} is a prepared folder, and a run reads one of them alone: leave the "
            f"other {len(paths) - 1} paths out, or prepare all texts together"
        )
    if field is not None:
        raise ConfigError(
            f"--field {field}: the text of {prepared[0]} is encoded already: leave the field out"
        )
    return prepared[0]


def manifest_sha256(path: str) -> str:
    """The SHA-256 of the manifest of a prepared folder, which has the checksums of all others.

    Raises:
        TextError: it is missing, or the URL cannot be read.
    """
    if is_url(path):
        content = UrlStore(path).read(TEXT_MANIFEST)
    else:
        content = read_bytes(Path(path) / TEXT_MANIFEST, refusal=TextError)
    return hashlib.sha256(content).hexdigest()


def cut_into_shards(
    folder: Path,
    *,
    shard_bytes: int,
    held_out: float,
    drop_duplicates: bool,
    weights: tuple[float, ...] | None,
) -> ShardTable:
    """Add the digests of shards to a folder of prepared text with its tokenizer.

    Args:
        folder: the folder.
        shard_bytes: of each shard.
        held_out: the share that was held out.
        drop_duplicates: whether repeated documents were left out.
        weights: of a mixture, the weight of each source.

    Raises:
        ConfigError: a shard of so many bytes is too large, or ends within a token.
    """
    file = folder / TOKENS
    tokens = np.load(file, mmap_mode="r")
    settings, n_bytes = folder / SETTINGS, file.stat().st_size
    digests = [
        hashlib.sha256(tokens[first : first + shard_bytes // tokens.itemsize]).digest()
        for first in range(0, len(tokens), max(1, shard_bytes // tokens.itemsize))
    ]
    np.save(folder / DIGESTS, np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(-1, 32))
    table = ShardTable(
        offset=n_bytes - tokens.nbytes,
        n_bytes=n_bytes,
        shard_bytes=shard_bytes,
        dtype="uint16" if tokens.dtype == np.uint16 else "uint32",
        digests_sha256=file_sha256(folder / DIGESTS),
        settings_sha256=file_sha256(settings) if settings.is_file() else None,
        held_out=held_out,
        drop_duplicates=drop_duplicates,
        weights=weights,
    )
    manifest = replace(read_manifest(folder), shards=table)
    remove_file(folder / TEXT_MANIFEST)  # it may be a link to the cache's own
    write_manifest(folder, manifest)
    return table
