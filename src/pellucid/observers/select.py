"""Observers by their names on the command line."""

from __future__ import annotations

from pellucid.errors import ConfigError
from pellucid.observers.mlflow import MLflow
from pellucid.observers.tensorboard import TensorBoard
from pellucid.observers.tracker import Insights, Tracker
from pellucid.observers.trackio import Trackio
from pellucid.observers.weights_and_biases import WeightsAndBiases

#: Every tracker by the name that `--observe` takes.
OBSERVERS: dict[str, type[Tracker]] = {
    tracker.name: tracker for tracker in (TensorBoard, WeightsAndBiases, Trackio, MLflow)
}


def observer_for(name: str, *, insights: Insights | None = None) -> Tracker:
    """The observer of that name.

    Args:
        name: its name on the command line.
        insights: gives findings and pictures.

    Raises:
        ConfigError: there is none.
        LibraryError: its library is not installed.
    """
    if name not in OBSERVERS:
        raise ConfigError(f"there is no observer {name!r}; there are: {', '.join(OBSERVERS)}")
    return OBSERVERS[name](insights=insights)
