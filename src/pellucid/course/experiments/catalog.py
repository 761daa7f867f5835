"""Every experiment by its name."""

from __future__ import annotations

from pellucid.config.codec import did_you_mean
from pellucid.course.experiments.numbers import (
    divergences,
    losses,
    norms,
    penalties,
    sequences,
    softmaxes,
    weights,
)
from pellucid.course.experiments.record import Experiment
from pellucid.course.experiments.trained import (
    adapters,
    attending,
    components,
    depth,
    memory,
    orders,
    probabilities,
    surprises,
    texts,
    updates,
    vectors,
)
from pellucid.errors import ConfigError

_MODULES = (
    softmaxes,
    losses,
    divergences,
    norms,
    weights,
    penalties,
    sequences,
    depth,
    updates,
    attending,
    orders,
    memory,
    components,
    probabilities,
    adapters,
    surprises,
    texts,
    vectors,
)

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment for module in _MODULES for experiment in module.EXPERIMENTS
}


def find(name: str) -> Experiment:
    """The experiment called `name`.

    Raises:
        ConfigError: no experiment has that name.
    """
    if name not in EXPERIMENTS:
        raise ConfigError(
            f"unknown experiment {name!r}{did_you_mean(name, EXPERIMENTS)}; all names: pellucid "
            "experiment list"
        )
    return EXPERIMENTS[name]
