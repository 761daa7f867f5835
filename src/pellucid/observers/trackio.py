"""A run in trackio, on this machine: `trackio show --project pellucid`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from pellucid.errors import ExitCode
from pellucid.observers.metrics import Numbers, missing_package
from pellucid.observers.tracker import Insights, Note, Picture, TrackedRun, Tracker, run_id_in


class Trackio(Tracker):
    """An observer that writes to trackio's database; a resumed run keeps its name.

    trackio has one database for all runs, where its variable TRACKIO_DIR says.

    Args:
        folder: The folder for the name of the run; `trackio` in the run's folder by default.
        insights: Gives findings and pictures.

    Raises:
        ConfigError: The package trackio is not installed.
    """

    def __init__(
        self, folder: str | Path | None = None, *, insights: Insights | None = None
    ) -> None:
        super().__init__(folder, insights=insights)
        try:
            import trackio  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise missing_package("trackio", "trackio", error) from None
        self._trackio: Any = trackio
        self._run: Any = None
        self._step = 0

    def begin(self, run: TrackedRun) -> None:
        """Begin the run, or continue it under its name."""
        place = self.place("trackio")
        place.mkdir(parents=True, exist_ok=True)
        self._step = run.step
        with redirect_stdout(None):  # its lines would lie over the panel
            self._run = self._trackio.init(
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
        text = self._trackio.Markdown(f"```\n{note.text}\n```")
        self._run.log({note.name: text}, step=note.step)

    def show(self, picture: Picture) -> None:
        """Write a picture."""
        self._run.log({picture.name: self._trackio.Image(picture.pixels)}, step=picture.step)

    def tag(self, tags: Mapping[str, str]) -> None:
        """Write a text for each tag: trackio has no tags."""
        for name, value in tags.items():
            self._run.log({f"tags/{name}": self._trackio.Markdown(value)}, step=self._step)

    def end(self, code: ExitCode) -> None:
        """Close the run."""
        with redirect_stdout(None):
            self._trackio.finish()
