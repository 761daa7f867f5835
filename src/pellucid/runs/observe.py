"""Running a job under observers: its events are recorded, and shown on a display."""

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


def observe_job(
    job: Job,
    progress: Progress,
    folder: RunFolder,
    first_events: Sequence[Event],
    observers: Sequence[Observer],
    interrupts: Interrupts,
    watchers: Sequence[Watcher] = (),
) -> None:
    """Run the loop from `progress` on; record every event and pass it to the observers.

    Args:
        job: everything that the run is made of.
        progress: how far the run is.
        folder: the run's folder; events are recorded there.
        first_events: events to record and pass on before the loop starts.
        observers: functions that are called with every event.
        interrupts: signals that save or stop the run.
        watchers: functions that look into the job; what they see are events too.
    """
    with (
        recorder(folder.metrics) as record,
        ExitStack() as watching,
    ):

        def emit(event: Event) -> None:
            for observer in (record, *observers):
                observer(event)

        all_observers = [record, *observers]
        all_observers += [watching.enter_context(watcher(job, emit)) for watcher in watchers]
        for observer in all_observers:
            if isinstance(observer, Panel):
                observer.heed(lambda: interrupts.asked)
            for event in first_events:
                observer(event)
        run_loop(job, progress, all_observers, interrupts)


@contextmanager
def add_display(show: bool, observers: Sequence[Observer]) -> Generator[list[Observer]]:
    """The observers; with `show`, a display on standard output comes first. It is closed here."""
    if not show:
        yield list(observers)
        return
    display = display_for()
    try:
        yield [display, *observers]
    finally:
        display.close()


@contextmanager
def explain_memory_errors(run: config.Run) -> Generator[None]:
    """Turn torch's error for too little memory into advice.

    Raises:
        RunError: the model and one part of a batch do not fit into memory.
    """
    try:
        yield
    except RuntimeError as error:
        message = str(error).lower()
        if "out of memory" not in message and "can't allocate memory" not in message:
            raise
        settings = run.training
        raise RunError(
            f"the memory does not hold this model with {settings.batch_size} sequences of "
            f"{run.model.context_length} tokens in {settings.accumulation} parts: cut them into "
            f"more parts with --set training.accumulation={2 * settings.accumulation}, or choose a "
            "smaller batch, context or model; earlier checkpoints are whole"
        ) from None
