"""What the loop tells its observers, and whether one of them raised."""

from __future__ import annotations

from collections.abc import Sequence

from pellucid.training import events
from pellucid.training.job import HeldOut, Progress


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


def evaluated(step: int, held_out: HeldOut, *, best: bool) -> events.Evaluated:
    """The event of an evaluation.

    Args:
        step: how many updates are done.
        held_out: what was measured.
        best: whether its loss is the best so far.
    """
    return events.Evaluated(
        step=step,
        loss_nats=held_out.loss_nats,
        over=held_out.over,
        unit=held_out.unit,
        measures=tuple(held_out.measures.items()),
        best=best,
        standard_error=held_out.standard_error,
    )


def early_end(progress: Progress) -> events.Noticed:
    """The event of a run that has lost its patience."""
    text = (
        f"the last {progress.stale_evaluations} evaluations found no lower held-out loss than "
        f"{progress.best_loss:.4f}: the run ends early; checkpoints/best has the best weights"
    )
    return events.Noticed(step=progress.step, text=text)
