"""How far a long piece of work has come, said every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

from pellucid.data import Piece
from pellucid.display.numbers import size

Say = Callable[[str], None]

#: Seconds from one line to the next at least, and as a share of the time so far: long work needs
#: fewer lines.
_INTERVAL_SECONDS = 5.0
_SHARE = 0.04


def silent(_: str) -> None:
    """Says nothing."""


class ProgressReporter:
    """Counts what is done of `what`, and says it; `total` is in bytes, where it is known."""

    def __init__(self, now: Say, what: str, total: int | None = None) -> None:
        self._now = now
        self._what = what
        self._total = total
        self._started = self._said = time.monotonic()
        self._bytes = self._documents = 0

    def __call__(self, n_bytes: int, ends: bool) -> None:
        """Count a piece of a document, the last of it or not."""
        self._bytes += n_bytes
        self._documents += ends
        moment = time.monotonic()
        elapsed = moment - self._started
        if moment - self._said >= max(_INTERVAL_SECONDS, _SHARE * elapsed):
            self._said = moment
            done = size(self._bytes) + ("" if self._total is None else f" of {size(self._total)}")
            many = f", {self._documents:,} documents" if self._documents > 1 else ""
            self._now(f"{self._what}: {done}{many}, {size(self._bytes / elapsed)}/s")

    def along(self, pieces: Iterable[Piece]) -> Iterator[Piece]:
        """The pieces, each counted as it passes."""
        for piece in pieces:
            self(len(piece.text.encode()), piece.last)
            yield piece
