"""A sign of life of each rank in the store: who has ended, and who hangs.

A collective that fails does not say which rank is gone, and one that waits for a frozen process
waits long. Each rank watches the next one, so the work does not grow with the number of ranks.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

#: Between two signs of life.
BEAT_SECONDS = 1.0
#: A rank without a sign of life for so long hangs: its threads no longer run.
FROZEN_SECONDS = 40.0
#: How long a process that ends waits for its last sign of life.
_LAST_SECONDS = 5.0
#: The beat of a rank that has left: like one that has not started, it does not hang.
LEFT = -2


class Heartbeat(threading.Thread):
    """Writes this rank's beats and watches the next rank's.

    Args:
        store: a connection of its own.
        rank: of this process.
        size: how many processes there are.
        lost: is called with a rank that hangs; with None if the store no longer answers.
    """

    def __init__(
        self, store: Any, rank: int, size: int, *, lost: Callable[[int | None], None]
    ) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self._store = store
        self._rank = rank
        self._next = (rank + 1) % size
        self._lost = lost
        self._ended = threading.Event()
        self._answered = time.monotonic()
        self._beat(0)

    def start(self) -> None:
        """Begin to beat, and to watch whether the store still answers."""
        super().start()
        # Python aborts a process that ends while a thread is in the store
        atexit.register(self.stop)
        threading.Thread(target=self._watch_store, name="store", daemon=True).start()

    def _watch_store(self) -> None:
        """A store behind a pulled cable does not answer, and never fails."""
        while not self._ended.wait(BEAT_SECONDS) and self.is_alive():
            if time.monotonic() - self._answered > FROZEN_SECONDS:
                self._lost(None)
                return

    def run(self) -> None:
        """Beat until `stop`, and then say that this rank has left."""
        self._watch_next()
        if self._ended.is_set():
            with suppress(RuntimeError):  # the store has gone
                self._beat(LEFT)

    def _watch_next(self) -> None:
        last, beat_time, count = -1, time.monotonic(), 0
        while not self._ended.wait(BEAT_SECONDS):
            count += 1
            now = time.monotonic()
            try:
                self._beat(count)
                beat = beats_of(self._store, self._next + 1, first=self._next)[0]
                if beat != last:
                    last, beat_time = beat, now
                elif beat >= 0 and now - beat_time > FROZEN_SECONDS:
                    self._store.set("frozen", str(self._next))
                frozen = self._store.check(["frozen"])
                self._answered = time.monotonic()
            except RuntimeError:  # the store has gone: the next collective says so
                return
            if frozen and not self._ended.is_set():
                self._lost(int(self._store.get("frozen")))
                return

    def stop(self) -> None:
        """Write no more beats."""
        self._ended.set()
        if threading.current_thread() is not self:
            self.join(_LAST_SECONDS)

    def _beat(self, count: int) -> None:
        self._store.set(_key(self._rank), str(count))


def beats_of(store: Any, end: int, *, first: int = 0) -> list[int]:
    """The latest beat of each rank from `first` to before `end`; -1 if it has none yet."""
    keys = [_key(rank) for rank in range(first, end)]
    if not store.check(keys):
        return [int(store.get(key)) if store.check([key]) else -1 for key in keys]
    return [int(beat) for beat in store.multi_get(keys)]


def _key(rank: int) -> str:
    return f"beat/{rank}"
