"""Progress lines of long work, every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

from pellucid.data import Piece
from pellucid.display.numbers import size

Notify = Callable[[str], None]

#: The shortest time between two lines in seconds, and as a share of the time so far: long work
#: needs fewer lines.
_INTERVAL_SECONDS = 5.0
_SHARE = 0.04


def silent(_: str) -> None:
    """Print nothing."""


class ProgressReporter:
    """Counts the bytes and documents of an activity, and prints them; `total` is in bytes."""

    def __init__(self, notify: Notify, activity: str, total: int | None = None) -> None:
        self._notify = notify
        self._activity = activity
        self._total = total
        self._start = self._last_line = time.monotonic()
        self._bytes = self._documents = 0

    def __call__(self, n_bytes: int, ends: bool) -> None:
        """Count a piece of a document; `ends` if it is the last of its document."""
        self._bytes += n_bytes
        self._documents += ends
        moment = time.monotonic()
        elapsed = moment - self._start
        if moment - self._last_line >= max(_INTERVAL_SECONDS, _SHARE * elapsed):
            self._last_line = moment
            amount = size(self._bytes) + ("" if self._total is None else f" of {size(self._total)}")
            documents = f", {self._documents:,} documents" if self._documents > 1 else ""
            speed = size(self._bytes / elapsed)
            self._notify(f"{self._activity}: {amount}{documents}, {speed}/s")

    def track(self, pieces: Iterable[Piece]) -> Iterator[Piece]:
        """The pieces, each counted as it passes."""
        for piece in pieces:
            self(len(piece.text.encode()), piece.last)
            yield piece
