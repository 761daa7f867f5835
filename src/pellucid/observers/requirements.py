"""What an observer needs: a folder, and its package."""

from __future__ import annotations

from pathlib import Path

from pellucid.errors import ConfigError, RunError
from pellucid.training import events


def choose_folder(
    folder: str | Path | None, event: events.Started | events.Resumed, name: str
) -> Path:
    """The folder for an observer's files: `folder`, or `name` in the run's folder.

    Raises:
        RunError: `folder` is None, and the event names no run's folder.
    """
    if folder is not None:
        return Path(folder)
    if not event.folder:
        raise RunError(f"the run has no folder for {name}/: pass a folder to the observer")
    return Path(event.folder) / name


def missing_package(package: str, extra: str, error: ImportError) -> ConfigError:
    """The error for an observer whose package is not installed."""
    return ConfigError(
        f"the package {package} cannot be imported ({error}), which observing with {extra} needs: "
        f"install pellucid with its extra, in a checkout pip install '.[{extra}]', or train "
        "without it"
    )
