"""What every tracker gets of a run, and in which order: one interface for all tools."""

from __future__ import annotations

import re
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
from jaxtyping import UInt8

from pellucid.config.codec import flatten
from pellucid.disk import write_text
from pellucid.errors import ExitCode, RunError
from pellucid.extras import import_extra
from pellucid.observers.metrics import Numbers, numbers_of
from pellucid.reader import read_text, read_toml
from pellucid.training import events
from pellucid.version import __version__

#: The file in the folder of a tool with the id that it knows the run by.
_FILE = "run-id.txt"
_RUN_ID = re.compile(r"[0-9a-f]{16}\s*")
#: A picture in shades of grey.
Pixels = UInt8[np.ndarray, "height width"]
#: Pictures may take this share of a run's time. The last ones come in any case.
_PICTURE_SHARE = 0.02


class Insights(Protocol):
    """What rooms above this one know of a run: its findings, and pictures of its attention."""

    def findings(self, folder: Path) -> list[str]:
        """A line for each finding of the run in a folder; it begins with the code."""
        ...

    def pictures(self, checkpoint: Path, sentence: str) -> Iterator[tuple[str, Pixels]]:
        """The attention of each layer to the sentence, by name."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedRun:
    """A run as it is announced: `config` has one entry for each key, such as "model.d_model"."""

    folder: Path | None
    name: str
    config: Mapping[str, Any]
    tags: Mapping[str, str]
    step: int
    is_resumed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A text after `step` updates; `name` is its kind, such as "sample"."""

    step: int
    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A picture after `step` updates."""

    step: int
    name: str
    pixels: Pixels


class Tracker(ABC):
    """An observer that passes a run on to a tool.

    Args:
        folder: the folder for the tool's files; by default one in the run's folder, named after
            the tool.
        insights: gives findings and pictures; without it there are none.

    Raises:
        LibraryError: the tool's library is not installed.
    """

    #: The tool's name on the command line, which is that of its extra, too.
    name: ClassVar[str]
    #: What is imported: the tool's module, and what it cannot do without; nothing for plain files.
    modules: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self, folder: str | Path | None = None, *, insights: Insights | None = None
    ) -> None:
        self._library: Any = import_extra(self.name, *self.modules) if self.modules else None
        self._folder = folder
        self._insights = insights
        self._run_folder: Path | None = None
        self._sentence = ""
        self._checkpoint = ""
        self._started = 0.0
        self._picture_seconds = 0.0

    @abstractmethod
    def begin(self, run: TrackedRun) -> None:
        """Begin a run in the tool, or continue the same one there."""

    @abstractmethod
    def log(self, step: int, numbers: Numbers) -> None:
        """Send numbers."""

    @abstractmethod
    def write(self, note: Note) -> None:
        """Send a text."""

    @abstractmethod
    def show(self, picture: Picture) -> None:
        """Send a picture."""

    @abstractmethod
    def tag(self, tags: Mapping[str, str]) -> None:
        """Add tags to the run."""

    @abstractmethod
    def end(self, code: ExitCode) -> None:
        """Close the run."""

    def flush(self) -> None:
        """Make sure that a killed run loses nothing; most tools do so themselves."""
        return

    def __call__(self, event: events.Event) -> None:
        """Pass an event on."""
        match event:
            case events.Started() | events.Resumed():
                self._open(event)
            case events.Logged() | events.Evaluated() | events.Vitals():
                for step, numbers in numbers_of(event):
                    self.log(step, numbers)
            case events.Sampled():
                self._sentence = event.sentence
                text = event.sentence + event.continuation
                self.write(Note(step=event.step, name="sample", text=text))
            case events.CheckpointSaved():
                self._checkpoint = event.path
                elapsed = time.monotonic() - self._started
                if self._picture_seconds <= _PICTURE_SHARE * elapsed:
                    self._show_attention(event.step)
            case events.Finished():
                self._end(event.step, "finished", ExitCode.SUCCESS)
                return
            case events.Interrupted():
                self._end(event.step, "interrupted", ExitCode.SUCCESS)
                return
            case events.StoppedNonFinite():
                self._end(event.step, "not finite", ExitCode.NON_FINITE)
                return
            case _:
                return
        self.flush()

    def place(self) -> Path:
        """The folder for the tool's files: the one that was given, or one in the run's folder.

        Raises:
            RunError: neither is there.
        """
        if self._folder is not None:
            return Path(self._folder)
        if self._run_folder is None:
            raise RunError(f"the run has no folder for {self.name}/: pass a folder to the observer")
        return self._run_folder / self.name

    def _open(self, event: events.Started | events.Resumed) -> None:
        self._run_folder = Path(event.folder) if event.folder else None
        self._started = time.monotonic()
        config = _config(self._run_folder)
        tags = {"pellucid": __version__}
        if "objective.kind" in config:
            tags["objective"] = str(config["objective.kind"])
        self.begin(
            TrackedRun(
                folder=self._run_folder,
                name=self._run_folder.name if self._run_folder else "run",
                config=config,
                tags=tags,
                step=event.step,
                is_resumed=isinstance(event, events.Resumed),
            )
        )

    def _end(self, step: int, state: str, code: ExitCode) -> None:
        self._show_attention(step)
        tags = {"state": state}
        if self._insights is not None and self._run_folder is not None:
            findings = self._insights.findings(self._run_folder)
            text = "\n".join(findings) or "nothing was found"
            self.write(Note(step=step, name="findings", text=text))
            tags["findings"] = ", ".join(line.split()[0] for line in findings) or "none"
        self.tag(tags)
        self.end(code)

    def _show_attention(self, step: int) -> None:
        if self._insights is None or not (self._checkpoint and self._sentence):
            return
        began = time.monotonic()
        for name, pixels in self._insights.pictures(Path(self._checkpoint), self._sentence):
            self.show(Picture(step=step, name=f"attention/{name}", pixels=pixels))
        self._picture_seconds += time.monotonic() - began
        self._checkpoint = ""  # its picture is shown


def run_id_in(place: Path, run: TrackedRun) -> str:
    """The id of a run: a new one, or the old one if the run continues.

    Args:
        place: the folder of the tool.
        run: the run.

    Raises:
        RunError: the file of the id is there, and not ours.
    """
    file = place / _FILE
    if run.is_resumed and file.is_file():
        return read_text(file).strip()
    run_id = secrets.token_hex(8)
    if file.is_file() and not _RUN_ID.fullmatch(read_text(file)):
        raise RunError(f"{file} is there already, and holds no run id of ours: move it away")
    write_text(file, run_id + "\n")
    return run_id


def _config(folder: Path | None) -> dict[str, Any]:
    if folder is None or not (folder / "config.toml").is_file():
        return {}
    return flatten(read_toml(folder / "config.toml"))
