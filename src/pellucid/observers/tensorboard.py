"""A run in TensorBoard: `tensorboard --logdir runs`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pellucid.observers.metrics import numbers_of
from pellucid.observers.requirements import missing, place_in
from pellucid.training import events


class TensorBoard:
    """An observer that writes what TensorBoard reads.

    Args:
        folder: where to; `tensorboard` in the run's folder by default.

    Raises:
        ConfigError: the package tensorboard is not installed.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise missing("tensorboard", "tensorboard", error) from None
        self._make: Any = SummaryWriter
        self._folder = folder
        self._writer: Any = None

    def __call__(self, event: events.Event) -> None:
        match event:
            case events.Started() | events.Resumed():
                place = place_in(self._folder, event, "tensorboard")
                # what was written after the checkpoint that we go on from is no longer true
                self._writer = self._make(log_dir=str(place), purge_step=event.step + 1)
                if isinstance(event, events.Started):
                    lines = (f"    {name}: {value}" for name, value in event.facts)
                    self._writer.add_text("run", "\n".join(lines), event.step)
            case events.Logged() | events.Evaluated():
                for step, numbers in numbers_of(event):
                    for name, value in numbers.items():
                        self._writer.add_scalar(name, value, step)
            case events.Sampled():
                # indented, so that it is shown as it is
                sample_text = (event.sentence + event.continuation).replace("\n", "\n    ")
                self._writer.add_text("sample", f"    {sample_text}", event.step)
            case events.Finished() | events.Interrupted() | events.StoppedNonFinite():
                self._writer.close()
                return
            case _:
                return
        self._writer.flush()  # a run that is killed keeps what it said
