"""Observers by their names on the command line."""

from __future__ import annotations

from collections.abc import Callable

from pellucid.errors import ConfigError
from pellucid.observers.tensorboard import TensorBoard
from pellucid.observers.weights_and_biases import WeightsAndBiases
from pellucid.training import Observer

OBSERVERS: dict[str, Callable[[], Observer]] = {
    "tensorboard": TensorBoard,
    "wandb": WeightsAndBiases,
}


def observer_for(name: str) -> Observer:
    """The observer of that name.

    Raises:
        ConfigError: There is none, or its package is not installed.
    """
    if name not in OBSERVERS:
        raise ConfigError(f"there is no observer {name!r}; there are: {', '.join(OBSERVERS)}")
    return OBSERVERS[name]()
