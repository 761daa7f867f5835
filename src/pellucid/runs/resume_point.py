"""The place where a run resumes: its newest whole checkpoint, a chosen one, or its start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pellucid import config
from pellucid.checkpoints import STATE, Checkpoint, SavedProgress, Shelf
from pellucid.errors import CheckpointError
from pellucid.saved_runs.folder import RunFolder
from pellucid.saved_runs.open_checkpoint import open_checkpoint
from pellucid.saved_runs.records import read_events
from pellucid.saved_runs.replans import read_clock
from pellucid.saved_runs.seal import LENGTH, Change, changes_since, is_sealed, sealed_at_start
from pellucid.training import CheckpointSaved, Clock, Drifted, Event, Finished

_UNSEALED = (
    "an older pellucid saved the checkpoint without digests of config and plan: pellucid cannot "
    "tell whether they have changed since"
)


@dataclass(frozen=True, slots=True)
class Place:
    """A checkpoint, or the start if `path` is None, with all events of the run so far."""

    path: Path | None
    saved: Checkpoint | None
    progress: SavedProgress | None
    events: Sequence[Event]
    notices: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its name in messages."""
        return "the start" if self.path is None else self.path.name

    @property
    def step(self) -> int:
        """How many updates are done."""
        return 0 if self.progress is None else self.progress.step

    @property
    def clock(self) -> Clock | None:
        """The time of a run by minutes so far."""
        return None if self.saved is None else read_clock(self.saved.state, Path(STATE))

    @property
    def sealed(self) -> Mapping[str, Any] | None:
        """The config and the plan so far; None if the run did not keep them."""
        state = sealed_at_start(self.events) if self.saved is None else self.saved.state
        return state if state is not None and is_sealed(state) else None

    @property
    def grows_over(self) -> int | None:
        """The updates over which the batch has grown so far; None if the run did not keep them."""
        match self.sealed:
            case {"plan": {"growth_steps": int(n)}} | {"plan": {"total_steps": int(n)}}:
                return n
            case _:
                return None

    @property
    def end(self) -> Finished | None:
        """The end of the run, if it is recorded at this place."""
        ends = (e for e in self.events if isinstance(e, Finished) and e.step == self.step)
        return next(ends, None)

    def unrecorded(self, shelf: Shelf) -> list[Event]:
        """The event of the checkpoint, if a kill came before it was recorded."""
        saved = (e.step for e in self.events if isinstance(e, CheckpointSaved))
        if self.path is None or self.step in saved:
            return []
        best = shelf.is_best(self.path)
        return [CheckpointSaved(step=self.step, path=str(self.path), best=best)]


def find_place(folder: RunFolder, checkpoint: Path | None) -> Place:
    """The given checkpoint, or the newest complete one, or the start if there is none.

    Raises:
        CheckpointError: the given one is damaged, or all are.
    """
    events = read_events(folder.metrics)
    damaged: list[tuple[Path, str]] = []
    path, opened = checkpoint, None
    if checkpoint is not None:
        try:
            opened = open_checkpoint(checkpoint)
        except CheckpointError as error:
            raise CheckpointError(
                f"{error}; resume the run itself, {folder.path}, to continue from its newest "
                "complete checkpoint"
            ) from None
    elif folder.shelf.had_checkpoint():
        path, opened, damaged = folder.shelf.newest_whole(open_checkpoint)
    saved, progress = opened or (None, None)
    place = Place(path, saved, progress, events)
    notices = [
        f"{bad.name} is left out ({problem}): the run continues from {place.name}, and repeats "
        f"{int(bad.name.removeprefix('step-')) - place.step:,} steps"
        for bad, problem in damaged
    ]
    if place.sealed is None:
        notices.append(_UNSEALED)
    return replace(place, notices=tuple(notices))


def open_changes(
    place: Place, run: config.Run, plan: config.Plan, longer: config.Plan
) -> list[Change]:
    """The changes since the place that the user has not allowed yet.

    Args:
        place: where the run resumes.
        run: the config of today.
        plan: the plan of today.
        longer: the plan with the requested length.
    """
    allowed = {
        change
        for event in place.events
        if isinstance(event, Drifted) and event.step == place.step
        for change in event.changes
    }
    if place.sealed is not None:
        changes = changes_since(place.sealed, run, longer)
    elif longer != plan:
        changes = (Change(LENGTH, str(plan.total_steps), str(longer.total_steps)),)
    else:
        changes = ()
    return [change for change in changes if change not in allowed]
