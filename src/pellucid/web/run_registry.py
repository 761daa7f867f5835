"""The runs of a page, each under a key; the page itself can add none."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pellucid import runs
from pellucid.catalogue import message
from pellucid.config import encode
from pellucid.display.numbers import short
from pellucid.errors import PellucidError
from pellucid.reader import read_text
from pellucid.runs import Run
from pellucid.web.requests import RequestError

#: Most models in memory: the one that the page shows, and one to compare with.
_MAX_MODELS = 2


class RunRegistry:
    """Runs with the keys `run0`, `run1`, ... in their order.

    Args:
        sources: the runs.
        open_run: opens a path.
        folders: folders whose runs the table of all runs lists, besides these.
    """

    def __init__(
        self,
        sources: Sequence[str | Path | Run],
        *,
        open_run: Callable[[Path], Run] = runs.load,
        folders: Sequence[Path] = (),
    ) -> None:
        if not sources:
            raise PellucidError(message("no-runs"))
        self._sources = {f"run{n}": source for n, source in enumerate(sources)}
        self._open_run = open_run
        self.folders = tuple(folders)
        self._models: OrderedDict[tuple[str, str], Run] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys, in order."""
        return tuple(self._sources)

    def load(self, key: str, checkpoint: str = "") -> Run:
        """The run of a key, at the named checkpoint or at its latest one.

        Raises:
            PellucidError: There is no such run or checkpoint, or it cannot be opened.
        """
        source = self._sources.get(key)
        if source is None:
            raise RequestError(message("unknown-run", run=repr(key)))
        with self._lock:
            if isinstance(source, Run) and checkpoint in ("", source.checkpoint.name):
                return source
            if checkpoint and checkpoint not in self.checkpoints(key):
                raise RequestError(message("unknown-checkpoint", checkpoint=repr(checkpoint)))
            run = self._models.get((key, checkpoint))
            if run is None or self._outdated(key, checkpoint, run):
                run = self._open_run(self._path(key, checkpoint))
            self._models[key, checkpoint] = run
            self._models.move_to_end((key, checkpoint))
            while len(self._models) > _MAX_MODELS:
                self._models.popitem(last=False)
            return run

    def checkpoints(self, key: str) -> tuple[str, ...]:
        """The names of a run's checkpoints, the oldest first; a published model has none."""
        folder = self._folder(key)
        if folder is None:
            return ()
        return tuple(folder.shelf.path(step).name for step in sorted(folder.shelf.steps()))

    def folder(self, key: str) -> Path:
        """The folder of a run or of a published model."""
        folder = self._folder(key)
        return self._source_path(key) if folder is None else folder.path

    def describe(self) -> list[dict[str, Any]]:
        """The runs for a picker; this loads no weights."""
        return [self._line(key) for key in self._sources]

    def _line(self, key: str) -> dict[str, Any]:
        source = self._sources[key]
        path = source.folder if isinstance(source, Run) else Path(source)
        names = self.checkpoints(key)
        current = ""
        if names:
            current = source.checkpoint.name if isinstance(source, Run) else self._checkpoint(key)
        name = self._folder_name(key, path)
        return {"key": key, "name": name, "checkpoints": list(names), "chosen": current}

    def summarise(self, run: Run) -> str:
        """A loaded run in one line: parameters, layers and heads."""
        count = sum(parameter.numel() for parameter in run.model.parameters())
        table = encode(run.config.model)
        stack: Any = table.get("decoder") or table.get("encoder") or {}
        layers = stack.get("n_layers", len(run.model.stack.blocks))
        width = table.get("d_model", run.model.token_embedding.embedding_dim)
        return message(
            "about-run",
            parameters=short(count),
            layers=message("count-layers", n=layers),
            width=width,
        )

    def _checkpoint(self, key: str) -> str:
        """The checkpoint that a key's path names, or empty."""
        _, checkpoint = runs.existing_folder(self._source_path(key))
        return "" if checkpoint is None else checkpoint.name

    def _folder_name(self, key: str, path: Path) -> str:
        folder = self._folder(key)
        return path.resolve().name if folder is None else folder.path.resolve().name

    def _source_path(self, key: str) -> Path:
        source = self._sources[key]
        return source.folder if isinstance(source, Run) else Path(source)

    def _folder(self, key: str) -> runs.RunFolder | None:
        try:
            folder, _ = runs.existing_folder(self._source_path(key))
        except PellucidError:
            return None
        return folder

    def _path(self, key: str, checkpoint: str) -> Path:
        folder = self._folder(key)
        if checkpoint and folder is not None:
            return folder.shelf.folder / checkpoint
        return self._source_path(key)

    def _outdated(self, key: str, checkpoint: str, loaded: Run) -> bool:
        """Whether a run still trains and has a newer checkpoint than the loaded one."""
        folder = self._folder(key)
        if checkpoint or folder is None or self._checkpoint(key):
            return False
        mark = folder.shelf.folder / "latest"
        return mark.is_file() and read_text(mark).strip() != loaded.checkpoint.name
