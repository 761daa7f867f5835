"""Which text is held out: by document where there are enough of them, the same every time.

Comes in: documents. Goes out: those to train on and those held out. It does not know tokens.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from pellucid.errors import TextError
from pellucid.text.documents import Document


@dataclass(frozen=True, slots=True)
class Split:
    """Training and held-out documents, and how they were parted ("documents" or "tails")."""

    train: tuple[Document, ...]
    held_out: tuple[Document, ...]
    by: str


def split(documents: Sequence[Document], share: float) -> Split:
    """Hold out whole documents for `share` of all bytes; the ends of the texts if that cannot be.

    Documents are taken in the order of their content's hash, so neither their names nor their order
    decide, and equal documents lie next to each other. One that would overshoot the share is passed
    over. If fewer than half the wanted bytes are found (one long book, say), the last `share` of
    each document is held out instead, cut at a line's end where there is one.

    Raises:
        TextError: there is too little text to hold anything out.
    """
    budget = share * sum(_size(document) for document in documents)
    chosen: set[int] = set()
    taken = 0
    for index in sorted(range(len(documents)), key=lambda i: (_digest(documents[i]), i)):
        size = _size(documents[index])
        if taken + size <= budget:
            chosen.add(index)
            taken += size
    if chosen and taken >= budget / 2:
        return Split(
            train=tuple(d for i, d in enumerate(documents) if i not in chosen),
            held_out=tuple(d for i, d in enumerate(documents) if i in chosen),
            by="documents",
        )
    cut = [_cut(document, share) for document in documents]
    train = tuple(head for head, _ in cut if head.text)
    held_out = tuple(tail for _, tail in cut if tail.text)
    if not train or not held_out:
        raise TextError("there is too little text to hold any of it out: pass more")
    return Split(train=train, held_out=held_out, by="tails")


def _size(document: Document) -> int:
    return len(document.text.encode())


def _digest(document: Document) -> bytes:
    return hashlib.sha256(document.text.encode()).digest()


def _cut(document: Document, share: float) -> tuple[Document, Document]:
    text = document.text
    at = len(text) - round(len(text) * share)
    line = text.rfind("\n", at - len(text) // 100, at)
    at = line + 1 if line >= 0 else at
    return Document(document.name, text[:at]), Document(document.name, text[at:])
