"""A job run under observers: recorded, and shown where that is wanted.

Comes in: a job and a place to start from. Goes out: a finished loop. It does not know how the
job was built.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from pellucid.display import display_for
from pellucid.runs.folder import RunFolder
from pellucid.runs.records import recorder
from pellucid.training import Interrupts, Job, Observer, Progress, Resumed, Started
from pellucid.training import train as run_loop


def follow(
    job: Job,
    progress: Progress,
    folder: RunFolder,
    first: Started | Resumed,
    observers: Sequence[Observer],
    interrupts: Interrupts | None = None,
) -> None:
    with recorder(folder.metrics) as record, interrupts or Interrupts() as asked:
        every = [record, *observers]
        for observer in every:
            observer(first)
        run_loop(job, progress, every, asked)


@contextmanager
def shown_to(show: bool, observers: Sequence[Observer]) -> Generator[list[Observer]]:
    """The observers, with a display on standard output in front where one is wanted."""
    if not show:
        yield list(observers)
        return
    display = display_for()
    try:
        yield [display, *observers]
    finally:
        display.close()
