"""A run in TensorBoard: `tensorboard --logdir runs`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pellucid.observers.metrics import choose_folder, missing_package, numbers_of
from pellucid.training import events


class TensorBoard:
    """An observer that writes files for TensorBoard.

    Args:
        folder: The target; `tensorboard` in the run's folder by default.

    Raises:
        ConfigError: The package tensorboard is not installed.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise missing_package("tensorboard", "tensorboard", error) from None
        self._make: Any = SummaryWriter
        self._folder = folder
        self._writer: Any = None

    def __call__(self, event: events.Event) -> None:
        """Write the numbers of an event."""
        match event:
            case events.Started() | events.Resumed():
                place = choose_folder(self._folder, event, "tensorboard")
                # purge the steps after the checkpoint that the run resumes from
                self._writer = self._make(log_dir=str(place), purge_step=event.step + 1)
                if isinstance(event, events.Started):
                    lines = (f"    {name}: {value}" for name, value in event.facts)
                    self._writer.add_text("run", "\n".join(lines), event.step)
            case events.Logged() | events.Evaluated():
                for step, numbers in numbers_of(event):
                    for name, value in numbers.items():
                        self._writer.add_scalar(name, value, step)
            case events.Sampled():
                # indented, so that Markdown shows it unchanged
                sample_text = (event.sentence + event.continuation).replace("\n", "\n    ")
                self._writer.add_text("sample", f"    {sample_text}", event.step)
            case events.Finished() | events.Interrupted() | events.StoppedNonFinite():
                self._writer.close()
                return
            case _:
                return
        self._writer.flush()  # so that a killed run loses no numbers
