"""Ctrl-C and SIGTERM: the first asks the loop to finish its step and save; the second stops now.

Comes in: signals. Goes out: a flag. It does not know what is being run.
"""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Interrupts:
    """While entered, signals set `asked`; outside the main thread nothing is installed."""

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        # not print: a signal may arrive in the middle of one
        os.write(2, b"\nfinishing this step, then saving; once more to stop now\n")
