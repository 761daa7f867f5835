"""A job run under observers: recorded, and shown where that is wanted.

Comes in: a job and a place to start from. Goes out: a finished loop. It does not know how the
job was built.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager

from pellucid import config
from pellucid.display import Panel, display_for
from pellucid.errors import RunError
from pellucid.saved_runs.folder import RunFolder
from pellucid.saved_runs.records import recorder
from pellucid.training import Event, Interrupts, Job, Observer, Progress, Watcher
from pellucid.training import train as run_loop


def follow(
    job: Job,
    progress: Progress,
    folder: RunFolder,
    first: Sequence[Event],
    observers: Sequence[Observer],
    interrupts: Interrupts,
    watchers: Sequence[Watcher] = (),
) -> None:
    """Run the loop from `progress` on, with every event recorded and handed to the observers.

    What watchers see they tell the same.
    """
    with (
        recorder(folder.metrics) as record,
        ExitStack() as watching,
    ):

        def tell(event: Event) -> None:
            for observer in (record, *observers):
                observer(event)

        all_observers = [record, *observers]
        all_observers += [watching.enter_context(watcher(job, tell)) for watcher in watchers]
        for observer in all_observers:
            if isinstance(observer, Panel):
                observer.heed(lambda: interrupts.asked)
            for event in first:
                observer(event)
        run_loop(job, progress, all_observers, interrupts)


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


@contextmanager
def memory_refused(run: config.Run) -> Generator[None]:
    """Turn torch's words for too little memory into advice.

    Raises:
        RunError: the model and one part of a batch do not fit.
    """
    try:
        yield
    except RuntimeError as error:
        words = str(error).lower()
        if "out of memory" not in words and "can't allocate memory" not in words:
            raise
        settings = run.training
        raise RunError(
            f"the memory does not hold this model with {settings.batch_size} sequences of "
            f"{run.model.context_length} tokens in {settings.accumulation} parts: cut them into "
            f"more parts with --set training.accumulation={2 * settings.accumulation}, or choose a "
            "smaller batch, context or model; earlier checkpoints are whole"
        ) from None
