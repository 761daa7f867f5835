"""Every event of a run goes to its observers; the loop learns whether one of them raised."""

from __future__ import annotations

from collections.abc import Sequence

from pellucid.training import events


class Announcer:
    """Calls the observers of a run with an event; one that raises is called no more.

    Args:
        observers: functions that are called with every event, in this order.

    Attributes:
        has_failed: whether an observer raised.
    """

    def __init__(self, observers: Sequence[events.Observer]) -> None:
        self._observers = list(observers)
        self.has_failed = False

    def __call__(self, event: events.Event) -> None:
        """Call each observer; what one of them raises goes on to the caller."""
        for observer in tuple(self._observers):
            try:
                observer(event)
            except Exception:
                self.has_failed = True
                self._observers.remove(observer)
                raise
