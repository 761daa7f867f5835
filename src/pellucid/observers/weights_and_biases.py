"""A run in Weights & Biases, online or offline (WANDB_MODE=offline), as its own settings say.

It sends no code, no git state and no console output.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pellucid.errors import ExitCode, RunError
from pellucid.observers.metrics import Numbers
from pellucid.observers.tracker import Note, Picture, TrackedRun, Tracker, run_id_in


class WeightsAndBiases(Tracker):
    """An observer that sends a run to wandb; a resumed run keeps its id."""

    name = "wandb"
    modules = ("wandb",)
    _run: Any = None

    def begin(self, run: TrackedRun) -> None:
        """Start wandb's process for the run.

        Raises:
            RunError: wandb does not start; says why.
        """
        wandb = self._library
        place = self.place()
        place.mkdir(parents=True, exist_ok=True)
        try:
            self._run = wandb.init(
                project=None if "WANDB_PROJECT" in os.environ else "pellucid",
                name=run.name if run.folder else None,
                id=run_id_in(place, run),
                resume="allow",
                # wandb adds its own folder `wandb`
                dir=str(place.parent if place.name == "wandb" else place),
                config=dict(run.config),
                tags=_labels(run.tags),
                settings=wandb.Settings(console="off", save_code=False, disable_git=True),
            )
        except wandb.Error as error:
            raise RunError(
                f"Weights & Biases did not start ({error}): log in with `wandb login`, or set "
                "WANDB_MODE=offline; then resume the run, with or without --observe"
            ) from None
        # a run resumed from an earlier checkpoint steps back, which wandb's own count cannot
        self._run.define_metric("*", step_metric="step")

    def log(self, step: int, numbers: Numbers) -> None:
        """Send numbers."""
        self._run.log({**numbers, "step": step})

    def write(self, note: Note) -> None:
        """Send a text."""
        self._run.log({note.name: note.text, "step": note.step})

    def show(self, picture: Picture) -> None:
        """Send a picture."""
        image = self._library.Image(picture.pixels)
        self._run.log({picture.name: image, "step": picture.step})

    def tag(self, tags: Mapping[str, str]) -> None:
        """Add tags of the form name: value."""
        self._run.tags = (*self._run.tags, *_labels(tags))

    def end(self, code: ExitCode) -> None:
        """Close the run."""
        self._run.finish(exit_code=int(code))


def _labels(tags: Mapping[str, str]) -> list[str]:
    """Tags as texts, which wandb limits to 64 letters."""
    return [f"{name}: {value}"[:64] for name, value in tags.items()]
