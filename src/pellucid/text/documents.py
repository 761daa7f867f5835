"""One document of a corpus.

Comes in: a name and a text, from whoever read them. Goes out: the pair, frozen.
Does not know: where the text came from, how it becomes token ids, which split it falls into.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Document:
    """A text with a name; `name` says where it came from and is never trained on."""

    name: str
    text: str
