"""Training of tokenizers in a thread, so that Ctrl-C works at once.

Python handles a signal in the main thread, between two of its instructions. The library that trains
tokenizers computes for minutes without one, and Ctrl-C would wait as long. So the main thread reads
the texts and waits, and can end at once; the other thread ends with the process.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator

NAME = "pellucid-library"
#: Texts and characters in a batch, and how many batches may wait for the library.
_TEXTS, _CHARACTERS, _QUEUE_SIZE = 256, 2**18, 2
#: Seconds between two checks, on systems where a signal does not end the waiting.
_LOOK = 0.1


class _GivenUpError(Exception):
    """The main thread has stopped waiting for the result."""


def feed(work: Callable[[Iterator[str]], None], texts: Iterable[str]) -> None:
    """Call `work` with the texts; a signal ends the waiting at once.

    Raises:
        BaseException: `work` or reading the texts raised it.
    """
    if threading.current_thread() is not threading.main_thread():
        work(iter(texts))  # no signal arrives here
        return
    feeder = _Feeder(work)
    try:
        feeder.hand_over(texts)
        feeder.wait()
    except BaseException:
        feeder.give_up()
        raise


class _Feeder:
    def __init__(self, work: Callable[[Iterator[str]], None]) -> None:
        self._work = work
        self._queue: queue.Queue[list[str] | None] = queue.Queue(_QUEUE_SIZE)
        self._finished, self._given_up = threading.Event(), threading.Event()
        self._errors: list[BaseException] = []
        threading.Thread(target=self._run, name=NAME, daemon=True).start()

    def hand_over(self, texts: Iterable[str]) -> None:
        batch, size = list[str](), 0
        for text in texts:
            batch.append(text)
            size += len(text)
            if len(batch) == _TEXTS or size >= _CHARACTERS:
                self._enqueue(batch)
                batch, size = [], 0
        self._enqueue(batch)
        self._enqueue(None)

    def wait(self) -> None:
        while not self._finished.wait(_LOOK):
            pass
        if self._errors:
            raise self._errors[0]

    def give_up(self) -> None:
        self._given_up.set()
        while not self._queue.empty():
            self._queue.get_nowait()
        self._queue.put_nowait(None)

    def _enqueue(self, batch: list[str] | None) -> None:
        while not self._finished.is_set():
            try:
                self._queue.put(batch, timeout=_LOOK)
                return
            except queue.Full:
                continue

    def _run(self) -> None:
        try:
            self._work(self._texts())
        except BaseException as error:  # a panic of the library is no Exception
            self._errors.append(error)
        finally:
            self._finished.set()

    def _texts(self) -> Iterator[str]:
        while (batch := self._queue.get()) is not None:
            yield from batch
        if self._given_up.is_set():
            raise _GivenUpError
