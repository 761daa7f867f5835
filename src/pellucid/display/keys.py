"""Keys that are pressed while a panel is shown, read between two events and never waited for."""

from __future__ import annotations

import os
import select
import sys
from contextlib import suppress
from typing import Any


class Keys:
    """The keyboard of the terminal, if this process may read it; else no key is ever pressed.

    Ctrl-C stays a signal. A process in the background leaves the keyboard alone.
    """

    def __init__(self) -> None:
        self._descriptor: int | None = None
        self._settings: Any = None

    def take(self) -> None:
        """Take the keyboard: a key comes at once, and is not shown."""
        try:
            import termios
            import tty
        except ImportError:  # Windows: no keys
            return
        try:
            descriptor = sys.stdin.fileno()
            if os.isatty(descriptor) and os.tcgetpgrp(descriptor) == os.getpgrp():
                self._settings = termios.tcgetattr(descriptor)
                tty.setcbreak(descriptor, termios.TCSADRAIN)
                self._descriptor = descriptor
        except (OSError, ValueError, AttributeError, termios.error):
            return  # a closed or a replaced standard input: no keys

    def close(self) -> None:
        """Give the keyboard back as it was."""
        if self._descriptor is not None:
            import termios

            with suppress(OSError, termios.error):
                termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._settings)
            self._descriptor = None

    def pressed(self, seconds: float = 0.0) -> str:
        """The keys since the last call; waits for one as long as `seconds` says."""
        if self._descriptor is None:
            return ""
        with suppress(OSError, ValueError):
            if os.tcgetpgrp(self._descriptor) != os.getpgrp():
                return ""
            if select.select([self._descriptor], [], [], seconds)[0]:
                return os.read(self._descriptor, 64).decode("utf-8", "ignore")
        return ""
