"""A run in Weights & Biases, online or offline (WANDB_MODE=offline), as its own settings say.

It sends no code, no git state and no console output.
"""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path
from typing import Any

from pellucid.disk import write_text
from pellucid.errors import ExitCode, RunError
from pellucid.observers.metrics import choose_folder, missing_package, numbers_of
from pellucid.reader import read_text, read_toml
from pellucid.training import events

_RUN_ID = re.compile(r"[0-9a-f]{16}\s*")


class WeightsAndBiases:
    """An observer that sends a run to wandb; a resumed run keeps its id.

    Args:
        folder: The folder for wandb's files; `wandb` in the run's folder by default.

    Raises:
        ConfigError: The package wandb is not installed.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        try:
            import wandb  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise missing_package("wandb", "wandb", error) from None
        self._wandb: Any = wandb
        self._folder = folder
        self._run: Any = None

    def __call__(self, event: events.Event) -> None:
        """Send the numbers of an event."""
        match event:
            case events.Started() | events.Resumed():
                self._start(event)
            case events.Logged() | events.Evaluated():
                for step, numbers in numbers_of(event):
                    self._run.log({**numbers, "step": step})
            case events.Sampled():
                sample_text = event.sentence + event.continuation
                self._run.log({"sample": sample_text, "step": event.step})
            case events.Finished() | events.Interrupted():
                self._run.finish()
            case events.StoppedNonFinite():
                self._run.finish(exit_code=int(ExitCode.NON_FINITE))
            case _:
                pass

    def _start(self, event: events.Started | events.Resumed) -> None:
        wandb = self._wandb
        place = choose_folder(self._folder, event, "wandb")
        place.mkdir(parents=True, exist_ok=True)
        run_id = _run_id(place / "run-id.txt", resumed=isinstance(event, events.Resumed))
        try:
            self._run = wandb.init(
                project=None if "WANDB_PROJECT" in os.environ else "pellucid",
                name=Path(event.folder).name if event.folder else None,
                id=run_id,
                resume="allow",
                # wandb adds its own folder `wandb`
                dir=str(place.parent if place.name == "wandb" else place),
                config=_config(event.folder),
                settings=wandb.Settings(console="off", save_code=False, disable_git=True),
            )
        except wandb.Error as error:
            raise RunError(
                f"Weights & Biases did not start ({error}): log in with `wandb login`, or set "
                "WANDB_MODE=offline; then resume the run, with or without --observe"
            ) from None
        # a run resumed from an earlier checkpoint steps back, which wandb's own count cannot
        self._run.define_metric("*", step_metric="step")


def _run_id(file: Path, *, resumed: bool) -> str:
    """The run's id in wandb, kept in a file for a resumed run."""
    if resumed and file.is_file():
        return read_text(file).strip()
    run_id = secrets.token_hex(8)
    if file.is_file() and not _RUN_ID.fullmatch(read_text(file)):
        raise RunError(f"{file} is there already, and holds no run id of ours: move it away")
    write_text(file, run_id + "\n")
    return run_id


def _config(folder: str) -> dict[str, Any]:
    file = Path(folder) / "config.toml"
    if not folder or not file.is_file():
        return {}
    return read_toml(file)
