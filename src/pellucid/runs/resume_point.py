"""The place where a run resumes: its newest whole checkpoint, a chosen one, or its start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pellucid import config
from pellucid.checkpoints import Checkpoint, SavedProgress, Shelf
from pellucid.errors import CheckpointError
from pellucid.saved_runs.folder import RunFolder
from pellucid.saved_runs.open_checkpoint import open_checkpoint
from pellucid.saved_runs.records import read_events
from pellucid.saved_runs.seal import LENGTH, Change, changes_since, is_sealed, sealed_at_start
from pellucid.training import CheckpointSaved, Drifted, Event, Finished

_UNSEALED = (
    "the checkpoint was saved by a pellucid that kept no digest of config and plan: whether they "
    "were changed since cannot be told"
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
    def sealed(self) -> Mapping[str, Any] | None:
        """The config and the plan that led here; None if the run did not keep them."""
        state = sealed_at_start(self.events) if self.saved is None else self.saved.state
        return state if state is not None and is_sealed(state) else None

    @property
    def grows_over(self) -> int | None:
        """Over how many updates the batch grew until here; None if the run did not keep that."""
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


def find_place(folder: RunFolder, chosen: Path | None) -> Place:
    """The chosen checkpoint, or the newest whole one, or the start if there is no checkpoint.

    Raises:
        CheckpointError: the chosen one is damaged, or all are.
    """
    events = read_events(folder.metrics)
    left_out: list[tuple[Path, str]] = []
    path, opened = chosen, None
    if chosen is not None:
        try:
            opened = open_checkpoint(chosen)
        except CheckpointError as error:
            raise CheckpointError(
                f"{error}; resume {folder.path}, the run itself, to go on from its newest whole "
                "checkpoint"
            ) from None
    elif folder.shelf.had_checkpoint():
        path, opened, left_out = folder.shelf.newest_whole(open_checkpoint)
    saved, progress = opened or (None, None)
    place = Place(path, saved, progress, events)
    notices = [
        f"{bad.name} is left out ({problem}): the run goes on from {place.name}, and "
        f"{_steps_of(bad) - place.step:,} steps are done again"
        for bad, problem in left_out
    ]
    if place.sealed is None:
        notices.append(_UNSEALED)
    return replace(place, notices=tuple(notices))


def open_changes(
    place: Place, run: config.Run, plan: config.Plan, longer: config.Plan
) -> list[Change]:
    """The changes since the place that the user has not allowed there yet.

    Args:
        place: where the run resumes.
        run: the config of today.
        plan: the plan of today.
        longer: the plan with the length that the user asks for.
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


def _steps_of(path: Path) -> int:
    return int(path.name.removeprefix("step-"))
