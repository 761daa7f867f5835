"""Documents encoded to disk, a bounded number of them in memory.

The split is known before, so each side goes straight to its arrays.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from pellucid.data.array_writer import Journal, Values, journaled_folder
from pellucid.data.checksums import own_code
from pellucid.data.documents import ReadCounts
from pellucid.data.encode import EncodedCounts, OnProgress, encode_pieces, hash_pieces, id_type
from pellucid.data.manifest import (
    DATA_FILES,
    SIDES,
    TEXT_FILES,
    Manifest,
    ShardFacts,
    write_manifest,
)
from pellucid.data.pieces import LONGEST_PIECE
from pellucid.data.split import CorpusSide, DividedCorpus
from pellucid.data.store import PreparedData, open_prepared
from pellucid.json_text import json_text
from pellucid.reader import file_sha256
from pellucid.tokenizers.tokenizer import Tokenizer
from pellucid.version import FORMAT


def prepare_documents(
    folder: Path,
    parts: DividedCorpus,
    tokenizer: Tokenizer,
    tally: ReadCounts | None = None,
    watch: OnProgress | None = None,
    n_sources: int | None = None,
    *,
    n_processes: int = 1,
) -> PreparedData:
    """Encode both sides into `folder`, and map them from there.

    If a killed process has encoded a part of this text with this tokenizer, that part stays.

    Args:
        folder: the folder for the arrays.
        parts: the two sides.
        tokenizer: encodes them.
        tally: the counts of reading, for the manifest.
        watch: is called for every stretch.
        n_sources: how many sources are mixed; None if none are.
        n_processes: how many processes encode; the files do not depend on it.

    Raises:
        TextError: the text has changed since it was divided.
    """
    key_parts = [FORMAT, LONGEST_PIECE, parts.sha256, tokenizer.sha256, own_code()]
    key = hashlib.sha256(json_text(key_parts).encode()).hexdigest()
    digest = hashlib.sha256()
    with journaled_folder(folder, DATA_FILES, key=key, keep=TEXT_FILES) as journal:
        train, held_out = (
            _write_side(journal, name, side, tokenizer, digest, watch, n_processes)
            for name, side in zip(SIDES, (parts.train, parts.held_out), strict=True)
        )
        manifest = Manifest(
            format=FORMAT,
            sha256=digest.hexdigest(),
            split_by=parts.split_by,
            tokenizer_sha256=tokenizer.sha256,
            train=train,
            held_out=held_out,
            read=tally,
            sources=None if n_sources is None else _count_documents(parts.train, n_sources),
        )
        write_manifest(journal.folder, manifest)
    return open_prepared(folder)


def _count_documents(side: CorpusSide, n_sources: int) -> tuple[int, ...]:
    counts = [0] * n_sources
    for piece in side.pieces():
        counts[piece.source] += piece.last
    return tuple(counts)


def _write_side(
    journal: Journal,
    name: str,
    side: CorpusSide,
    tokenizer: Tokenizer,
    digest: Any,
    watch: OnProgress | None,
    n_processes: int,
) -> ShardFacts:
    """Encode a side, after the part that an earlier process has encoded."""
    counts = EncodedCounts(**journal.counts(name))
    starts = f"{name}.starts"

    def values() -> Iterator[Values]:
        pieces = hash_pieces(side, digest)
        for encoding in encode_pieces(
            pieces, tokenizer, skip=counts.stretches, watch=watch, n_processes=n_processes
        ):
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
