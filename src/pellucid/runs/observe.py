"""Running a job under observers: its events are recorded, and shown on a display."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager

from pellucid import config
from pellucid.display import Panel, PlainLines, display_for
from pellucid.errors import RunError
from pellucid.parallel import own_command
from pellucid.saved_runs.folder import RunFolder
from pellucid.saved_runs.records import read_events, recorder
from pellucid.training import Event, Interrupts, Job, Observer, Progress, Resumed, Watcher
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
                _connect(observer, interrupts, is_alone=job.world.size == 1)
                if any(isinstance(event, Resumed) for event in first_events):
                    observer.recall(read_events(folder.metrics))
            elif isinstance(observer, PlainLines):
                observer.when_unread = interrupts.stop_unread
            for event in first_events:
                observer(event)
        run_together(job, progress, folder, all_observers, interrupts)


def _connect(panel: Panel, interrupts: Interrupts, *, is_alone: bool) -> None:
    """Let the keys of a panel act on the training; other ranks would not hear all of them."""

    def save() -> None:
        interrupts.save_asked = True

    def sample() -> None:
        interrupts.sample_asked = True

    panel.heed(
        lambda: interrupts.asked, save=save, sample=sample if is_alone else None, can_pause=is_alone
    )


def run_together(
    job: Job,
    progress: Progress,
    folder: RunFolder,
    observers: Sequence[Observer],
    interrupts: Interrupts,
) -> None:
    """Run the loop with all ranks; if one is lost, the message has the command that continues.

    Args:
        job: everything that the run is made of.
        progress: how far the run is.
        folder: the run's folder.
        observers: functions that are called with every event.
        interrupts: signals that save or stop the run.
    """

    def describe() -> str:
        steps = folder.shelf.steps()
        last = f"up to step {steps[-1]:,}" if steps else "none: it starts again"
        return (
            f" (at update {progress.step + 1:,}). The checkpoints are whole ({last}); start all "
            f"ranks again with {own_command()} train --resume {folder.path}"
        )

    interrupts.settle_seconds = job.world.settle_seconds
    with job.world.losing(describe):
        job.world.start_together()
        run_loop(job, progress, observers, interrupts)


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
