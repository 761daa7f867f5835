"""A run in MLflow: the server of MLFLOW_TRACKING_URI, or a database next to the runs."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pellucid.disk import write_text
from pellucid.errors import ExitCode
from pellucid.observers.metrics import Numbers
from pellucid.observers.tracker import Note, Picture, TrackedRun, Tracker
from pellucid.reader import read_text

#: The variable that names a server.
_SERVER = "MLFLOW_TRACKING_URI"
#: The most parameters that MLflow takes at a time, and the most letters of one.
_BATCH, _LETTERS = 100, 6000


class MLflow(Tracker):
    """An observer that writes to MLflow; a resumed run keeps its id.

    Its folder holds the id, and `mlflow.db` without a server; by default that is next to the runs.
    """

    name = "mlflow"
    modules = ("mlflow", "mlflow.entities", "sqlalchemy")
    _client: Any = None
    _id = ""

    def begin(self, run: TrackedRun) -> None:
        """Begin the run, or continue it under its id."""
        place = self.place()
        place.mkdir(parents=True, exist_ok=True)
        runs = None if self._folder is not None or run.folder is None else run.folder.parent
        home = (runs or place).resolve()
        uri = os.environ.get(_SERVER) or f"sqlite:///{home / 'mlflow.db'}"
        logging.getLogger("mlflow").setLevel(logging.WARNING)  # it tells of each table it makes
        self._client = self._library.MlflowClient(tracking_uri=uri)
        file = place / "run-id.txt"
        if run.is_resumed and file.is_file():
            self._id = read_text(file).strip()
            self._client.update_run(self._id, status="RUNNING")
            return
        experiment = self._experiment(home / "mlflow-files")
        self._id = self._client.create_run(experiment, run_name=run.name).info.run_id
        write_text(file, self._id + "\n")
        self.tag(run.tags)
        params = [
            self._library.entities.Param(key, str(value)[:_LETTERS])
            for key, value in run.config.items()
        ]
        for start in range(0, len(params), _BATCH):
            self._client.log_batch(self._id, params=params[start : start + _BATCH])

    def log(self, step: int, numbers: Numbers) -> None:
        """Send numbers."""
        moment = int(time.time() * 1000)
        make = self._library.entities.Metric
        metrics = [make(name, value, moment, step) for name, value in numbers.items()]
        self._client.log_batch(self._id, metrics=metrics)

    def write(self, note: Note) -> None:
        """Send a text as a file."""
        self._client.log_text(self._id, note.text, f"{note.name}/step-{note.step}.txt")

    def show(self, picture: Picture) -> None:
        """Send a picture as a file."""
        file = f"{picture.name}/step-{picture.step}.png"
        self._client.log_image(self._id, picture.pixels, file)

    def tag(self, tags: Mapping[str, str]) -> None:
        """Add tags."""
        for name, value in tags.items():
            self._client.set_tag(self._id, name, value)

    def end(self, code: ExitCode) -> None:
        """Close the run."""
        status = "FINISHED" if code is ExitCode.SUCCESS else "FAILED"
        self._client.set_terminated(self._id, status=status)

    def _experiment(self, files: Path) -> str:
        """The experiment `pellucid`; without a server, its files lie near the database."""
        experiment = self._client.get_experiment_by_name("pellucid")
        if experiment is not None:
            return experiment.experiment_id
        location = None if os.environ.get(_SERVER) else files.as_uri()
        return self._client.create_experiment("pellucid", artifact_location=location)
