"""A run in TensorBoard: `tensorboard --logdir runs`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pellucid.errors import ExitCode
from pellucid.json_text import json_text
from pellucid.observers.metrics import Numbers
from pellucid.observers.tracker import Note, Picture, TrackedRun, Tracker


class TensorBoard(Tracker):
    """An observer that writes files for TensorBoard, which has texts in the place of tags."""

    name = "tensorboard"
    modules = ("torch.utils.tensorboard",)
    _writer: Any = None
    _step = 0

    def begin(self, run: TrackedRun) -> None:
        """Purge the steps after the checkpoint that the run resumes from."""
        place = str(self.place())
        self._writer = self._library.SummaryWriter(log_dir=place, purge_step=run.step + 1)
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
