"""What an observer needs before it can start: a place to write to, and its package."""

from __future__ import annotations

from pathlib import Path

from pellucid.errors import ConfigError, RunError
from pellucid.training import events


def place_in(chosen: str | Path | None, event: events.Started | events.Resumed, name: str) -> Path:
    """Where an observer writes: the folder it was given, or `name` in the run's folder.

    Raises:
        RunError: none was given, and the event names no run's folder.
    """
    if chosen is not None:
        return Path(chosen)
    if not event.folder:
        raise RunError(f"the run says no folder to put {name}/ into: give the observer a folder")
    return Path(event.folder) / name


def missing(package: str, extra: str, error: ImportError) -> ConfigError:
    """What is said where a package is not installed."""
    return ConfigError(
        f"to observe with {extra}, the package {package} is needed, and it cannot be imported "
        f"({error}): install pellucid with its extra, in a checkout pip install '.[{extra}]', or "
        "train without it"
    )
