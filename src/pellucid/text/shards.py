"""Documents encoded once into memory-mapped arrays, with their boundaries and checksums.

Comes in: a split and a tokenizer. Goes out: a folder of `.npy` files, and the arrays mapped from
it.
It does not know batches.

The folder is written beside its final place and renamed at the end: a preparation that was
interrupted is never taken for a finished one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pellucid.config import decode, encode
from pellucid.errors import ConfigError, TextError
from pellucid.text.documents import Document, Tally
from pellucid.text.split import Split
from pellucid.text.tokenizers import Tokenizer, unknown_share
from pellucid.version import FORMAT

Tokens = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardFacts:
    """What is known of one split: counts, the share of unknown tokens, and its files' checksums.

    `changed` is how many documents do not decode to what they were.
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
    """`text.json`: from which content (`sha256`) what was prepared, split and encoded how.

    `read` is absent where the documents did not come from a corpus of a config.
    """

    format: int
    sha256: str
    split_by: str
    tokenizer_sha256: str | None
    train: ShardFacts
    held_out: ShardFacts
    read: Tally | None


@dataclass(frozen=True, slots=True)
class Shard:
    """One split: all its tokens end to end, and where each document starts."""

    tokens: Tokens
    starts: Tokens
    n_bytes: int


@dataclass(frozen=True, slots=True)
class PreparedText:
    """Both splits, mapped, and the manifest."""

    train: Shard
    held_out: Shard
    manifest: Manifest


def content_hash(documents: Sequence[Document]) -> str:
    """The SHA-256 of the texts, in order, each with its length: names do not matter."""
    digest = hashlib.sha256()
    for document in documents:
        content = document.text.encode()
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.hexdigest()


def prepare(
    folder: Path, split: Split, tokenizer: Tokenizer, tally: Tally | None = None
) -> PreparedText:
    """Encode both splits into `folder`, and map them from there.

    Args:
        tally: what was counted while the documents were read; kept in the manifest.
    """
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    manifest = Manifest(
        format=FORMAT,
        sha256=content_hash([*split.train, *split.held_out]),
        split_by=split.by,
        tokenizer_sha256=tokenizer.sha256,
        train=_write(partial, "train", split.train, tokenizer),
        held_out=_write(partial, "held_out", split.held_out, tokenizer),
        read=tally,
    )
    (partial / "text.json").write_text(json.dumps(encode(manifest), indent=2), encoding="utf-8")
    os.replace(partial, folder)
    return open_prepared(folder)


def open_prepared(folder: Path, *, verify: bool = False) -> PreparedText:
    """Map what `prepare` wrote; with `verify`, every checksum is compared.

    Raises:
        TextError: a file is missing, of another format, or not what its checksum says.
    """
    try:
        manifest = decode(Manifest, json.loads((folder / "text.json").read_text()), "text.json")
        return PreparedText(
            train=_open(folder, "train", manifest.train, verify),
            held_out=_open(folder, "held_out", manifest.held_out, verify),
            manifest=manifest,
        )
    except (OSError, ValueError, ConfigError) as error:
        raise TextError(
            f"the prepared text in {folder} is damaged or incomplete ({error}): start a new run "
            "from the same text"
        ) from None


def check_tokenizer(file: Path, manifest: Manifest) -> None:
    """Refuse a stored tokenizer that is not the one that the text was encoded with.

    Raises:
        TextError: it was changed or exchanged since.
    """
    now = hashlib.sha256(file.read_text(encoding="utf-8").encode()).hexdigest()
    if manifest.tokenizer_sha256 not in (None, now):
        raise TextError(
            f"{file} is not the tokenizer that the run's text was encoded with: put the run's own "
            "back, or start a new run with text.tokenizer.kind=FromFile"
        )


def _write(
    folder: Path, name: str, documents: Sequence[Document], tokenizer: Tokenizer
) -> ShardFacts:
    parts = [tokenizer.encode_document(document.text) for document in documents]
    dtype = np.uint16 if tokenizer.vocab_size <= 2**16 else np.uint32
    tokens = np.concatenate([np.asarray(part, dtype=dtype) for part in parts])
    starts = np.cumsum([0, *(len(part) for part in parts[:-1])], dtype=np.int64)
    np.save(folder / f"{name}.npy", tokens)
    np.save(folder / f"{name}.starts.npy", starts)
    return ShardFacts(
        documents=len(documents),
        n_bytes=sum(len(document.text.encode()) for document in documents),
        n_tokens=len(tokens),
        unknown=unknown_share(tokenizer, tokens),
        changed=0 if tokenizer.exact else _changed(documents, parts, tokenizer),
        tokens_sha256=_sha256(folder / f"{name}.npy"),
        starts_sha256=_sha256(folder / f"{name}.starts.npy"),
    )


def _changed(
    documents: Sequence[Document], parts: Sequence[Sequence[int]], tokenizer: Tokenizer
) -> int:
    return sum(
        tokenizer.decode(part) != document.text
        for document, part in zip(documents, parts, strict=True)
    )


def _open(folder: Path, name: str, facts: ShardFacts, verify: bool) -> Shard:
    tokens, starts = folder / f"{name}.npy", folder / f"{name}.starts.npy"
    if verify:
        for file, expected in ((tokens, facts.tokens_sha256), (starts, facts.starts_sha256)):
            if _sha256(file) != expected:
                raise ValueError(f"{file.name} is not what its checksum says")
    return Shard(
        tokens=np.load(tokens, mmap_mode="r"),
        starts=np.load(starts, mmap_mode="r"),
        n_bytes=facts.n_bytes,
    )


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
