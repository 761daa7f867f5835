"""A run in TensorBoard: `tensorboard --logdir runs`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pellucid.errors import ExitCode
from pellucid.json_text import json_text
from pellucid.observers.metrics import Numbers, missing_package
from pellucid.observers.tracker import Insights, Note, Picture, TrackedRun, Tracker


class TensorBoard(Tracker):
    """An observer that writes files for TensorBoard, which has texts in the place of tags.

    Args:
        folder: The target; `tensorboard` in the run's folder by default.
        insights: Gives findings and pictures.

    Raises:
        ConfigError: The package tensorboard is not installed.
    """

    def __init__(
        self, folder: str | Path | None = None, *, insights: Insights | None = None
    ) -> None:
        super().__init__(folder, insights=insights)
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise missing_package("tensorboard", "tensorboard", error) from None
        self._make: Any = SummaryWriter
        self._writer: Any = None
        self._step = 0

    def begin(self, run: TrackedRun) -> None:
        """Purge the steps after the checkpoint that the run resumes from."""
        place = str(self.place("tensorboard"))
        self._writer = self._make(log_dir=place, purge_step=run.step + 1)
        self._step = run.step
        if not run.is_resumed:
            text = json_text(run.config, indent=1)
            self.write(Note(step=run.step, name="config", text=text))
            self.tag(run.tags)

    def log(self, step: int, numbers: Numbers) -> None:
        """Write scalars."""
        self._step = step
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)

    def write(self, note: Note) -> None:
        """Write a text, indented so that Markdown shows it unchanged."""
        self._writer.add_text(note.name, "    " + note.text.replace("\n", "\n    "), note.step)

    def show(self, picture: Picture) -> None:
        """Write a picture."""
        self._writer.add_image(picture.name, picture.pixels, picture.step, dataformats="HW")

    def tag(self, tags: Mapping[str, str]) -> None:
        """Write a text for each tag."""
        for name, value in tags.items():
            self.write(Note(step=self._step, name=f"tags/{name}", text=value))

    def flush(self) -> None:
        """Write all to the disk."""
        self._writer.flush()

    def end(self, code: ExitCode) -> None:
        """Close the files."""
        self._writer.close()
