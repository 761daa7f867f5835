"""The runs that a page may look at, each under a key; given at the start, never by the page."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pellucid import runs
from pellucid.config import encode
from pellucid.display.numbers import short
from pellucid.errors import PellucidError
from pellucid.reader import read_text
from pellucid.runs import Run
from pellucid.web.requests import RequestError

#: How many models are held in memory at once: the one that is looked at, and one to compare with.
_HELD = 2


class RunRegistry:
    """Runs in the order they were given: `run0`, `run1`, ... are their keys."""

    def __init__(self, given: Sequence[str | Path | Run]) -> None:
        if not given:
            raise PellucidError("there is no run to look at: name at least one")
        self._given = {f"run{n}": source for n, source in enumerate(given)}
        self._held: OrderedDict[tuple[str, str], Run] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys, in order."""
        return tuple(self._given)

    def load(self, key: str, checkpoint: str = "") -> Run:
        """The run behind a key, at its latest checkpoint or at the one that is named.

        Raises:
            PellucidError: there is no such run or checkpoint, or it cannot be opened.
        """
        source = self._given.get(key)
        if source is None:
            raise RequestError(f"there is no run {key!r} here: choose one from the list")
        with self._lock:
            if isinstance(source, Run) and checkpoint in ("", source.checkpoint.name):
                return source
            if checkpoint and checkpoint not in self.checkpoints(key):
                raise RequestError(
                    f"the checkpoint {checkpoint!r} is not there, or not there any more: choose "
                    "another from the list"
                )
            run = self._held.get((key, checkpoint))
            if run is None or self._outdated(key, checkpoint, run):
                run = runs.load(self._path(key, checkpoint))
            self._held[key, checkpoint] = run
            self._held.move_to_end((key, checkpoint))
            while len(self._held) > _HELD:
                self._held.popitem(last=False)
            return run

    def checkpoints(self, key: str) -> tuple[str, ...]:
        """The names of a run's checkpoints, the oldest first; none of a published model."""
        folder = self._folder(key)
        if folder is None:
            return ()
        return tuple(folder.shelf.path(step).name for step in sorted(folder.shelf.steps()))

    def listed(self) -> list[dict[str, Any]]:
        """What a picker shows, without loading a weight that is not loaded."""
        return [self._line(key) for key in self._given]

    def _line(self, key: str) -> dict[str, Any]:
        source = self._given[key]
        path = source.folder if isinstance(source, Run) else Path(source)
        names = self.checkpoints(key)
        chosen = ""
        if names:
            chosen = source.checkpoint.name if isinstance(source, Run) else self._named(key)
        name = self._folder_name(key, path)
        return {"key": key, "name": name, "checkpoints": list(names), "chosen": chosen or ""}

    def about(self, run: Run) -> str:
        """A loaded run in one line: parameters, layers and heads."""
        count = sum(parameter.numel() for parameter in run.model.parameters())
        table = encode(run.config.model)
        stack: Any = table.get("decoder") or table.get("encoder") or {}
        layers = stack.get("n_layers", len(run.model.stack.blocks))
        width = table.get("d_model", run.model.token_embedding.embedding_dim)
        return f"{short(count)} parameters, {layers} layers, width {width}"

    def _named(self, key: str) -> str:
        _, named = runs.existing_folder(self._given_path(key))
        return "" if named is None else named.name

    def _folder_name(self, key: str, path: Path) -> str:
        folder = self._folder(key)
        return path.resolve().name if folder is None else folder.path.resolve().name

    def _given_path(self, key: str) -> Path:
        source = self._given[key]
        return source.folder if isinstance(source, Run) else Path(source)

    def _folder(self, key: str) -> runs.RunFolder | None:
        try:
            folder, _ = runs.existing_folder(self._given_path(key))
        except PellucidError:
            return None
        return folder

    def _path(self, key: str, checkpoint: str) -> Path:
        folder = self._folder(key)
        if checkpoint and folder is not None:
            return folder.shelf.folder / checkpoint
        return self._given_path(key)

    def _outdated(self, key: str, checkpoint: str, held: Run) -> bool:
        """Whether a run still trains and has a newer latest checkpoint than the one held."""
        folder = self._folder(key)
        if checkpoint or folder is None or self._named(key):
            return False
        mark = folder.shelf.folder / "latest"
        return mark.is_file() and read_text(mark).strip() != held.checkpoint.name
