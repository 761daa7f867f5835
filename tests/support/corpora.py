"""Corpora in memory, and what preparing them has to give: everything at once, the direct way."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from pellucid.data import CorpusSide, DividedCorpus, Document, Split, open_prepared, pieces_of
from pellucid.errors import TextError
from pellucid.tokenizers import Tokenizer


def side_of(documents: Sequence[Document]) -> CorpusSide:
    sizes = [len(document.text.encode()) for document in documents]
    return CorpusSide(np.array(sizes, dtype=np.int64), lambda: pieces_of(documents))


def parts_of(split: Split) -> DividedCorpus:
    """A split in memory as the streams that a corpus is parted into."""
    name = content_hash([*split.train, *split.held_out])
    return DividedCorpus(side_of(split.train), side_of(split.held_out), split.split_by, name)


def content_hash(documents: Sequence[Document]) -> str:
    digest = hashlib.sha256()
    for document in documents:
        content = document.text.encode()
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.hexdigest()


def without_duplicates(documents: Sequence[Document]) -> list[Document]:
    firsts: dict[str, Document] = {}
    for document in documents:
        firsts.setdefault(document.text, document)
    return list(firsts.values())


def direct_split(documents: Sequence[Document], share: float) -> Split | None:
    """The rule of decision 5 with all texts at hand; None if there is too little text."""

    def key(index: int) -> tuple[bytes, int]:
        return hashlib.sha256(documents[index].text.encode()).digest(), index

    sizes = [len(document.text.encode()) for document in documents]
    budget, n_bytes = share * sum(sizes), 0
    held_out_indices: set[int] = set()
    for index in sorted(range(len(documents)), key=key):
        if n_bytes + sizes[index] <= budget:
            held_out_indices.add(index)
            n_bytes += sizes[index]
    if held_out_indices and n_bytes >= budget / 2:
        train = tuple(d for i, d in enumerate(documents) if i not in held_out_indices)
        return Split(
            train, tuple(d for i, d in enumerate(documents) if i in held_out_indices), "documents"
        )
    cut = [_ends(document, share) for document in documents]
    heads = tuple(head for head, _ in cut if head.text)
    tails = tuple(tail for _, tail in cut if tail.text)
    return Split(heads, tails, "tails") if heads and tails else None


def _ends(document: Document, share: float) -> tuple[Document, Document]:
    text = document.text
    cut = len(text) - round(len(text) * share)
    line = text.rfind("\n", cut - len(text) // 100, cut)
    cut = line + 1 if line >= 0 else cut
    return Document(document.name, text[:cut]), Document(document.name, text[cut:])


def direct_files(folder: Path, split: Split, tokenizer: Tokenizer) -> None:
    """The arrays of both sides, as numpy writes them."""
    folder.mkdir()
    dtype = np.uint16 if tokenizer.vocab_size <= 2**16 else np.uint32
    for name, documents in (("train", split.train), ("held_out", split.held_out)):
        ids = [tokenizer.encode_document(document.text) for document in documents]
        np.save(folder / f"{name}.npy", np.concatenate([np.asarray(i, dtype=dtype) for i in ids]))
        starts = np.cumsum([0, *(len(document_ids) for document_ids in ids[:-1])], dtype=np.int64)
        np.save(folder / f"{name}.starts.npy", starts)


def refuses_half_and_none(folder: Path, name: str) -> None:
    """Cut a file of prepared data in half, and then remove it: both are refused on opening."""
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(TextError, match="damaged or incomplete"):
        open_prepared(folder)
    (folder / name).unlink()
    with pytest.raises(TextError, match="damaged or incomplete"):
        open_prepared(folder)
