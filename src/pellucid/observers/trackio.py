"""A run in trackio, on this machine: `trackio show --project pellucid`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import redirect_stdout
from typing import Any

from pellucid.errors import ExitCode
from pellucid.observers.metrics import Numbers
from pellucid.observers.tracker import Note, Picture, TrackedRun, Tracker, run_id_in


class Trackio(Tracker):
    """An observer that writes to trackio's database; a resumed run keeps its name.

    trackio has one database for all runs, where its variable TRACKIO_DIR says.
    Its folder holds the name of the run.
    """

    name = "trackio"
    modules = ("trackio",)
    _run: Any = None
    _step = 0

    def begin(self, run: TrackedRun) -> None:
        """Begin the run, or continue it under its name."""
        place = self.place()
        place.mkdir(parents=True, exist_ok=True)
        self._step = run.step
        with redirect_stdout(None):  # its lines would lie over the panel
            self._run = self._library.init(
                project="pellucid",
                name=f"{run.name}-{run_id_in(place, run)[:6]}",
                config={**run.config, "tags": dict(run.tags)},
                resume="allow",
                embed=False,
                auto_log_gpu=False,
                auto_log_cpu=False,
            )

    def log(self, step: int, numbers: Numbers) -> None:
        """Write numbers."""
        self._step = step
        self._run.log(dict(numbers), step=step)

    def write(self, note: Note) -> None:
        """Write a text as it is."""
        text = self._library.Markdown(f"```\n{note.text}\n```")
        self._run.log({note.name: text}, step=note.step)

    def show(self, picture: Picture) -> None:
        """Write a picture."""
        self._run.log({picture.name: self._library.Image(picture.pixels)}, step=picture.step)

    def tag(self, tags: Mapping[str, str]) -> None:
        """Write a text for each tag: trackio has no tags."""
        for name, value in tags.items():
            self._run.log({f"tags/{name}": self._library.Markdown(value)}, step=self._step)

    def end(self, code: ExitCode) -> None:
        """Close the run."""
        with redirect_stdout(None):
            self._library.finish()
