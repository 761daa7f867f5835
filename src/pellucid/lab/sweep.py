"""A sweep: trials of one config over a space in TOML, and which key matters how much."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack, cast

import numpy as np

from pellucid.config.codec import flatten
from pellucid.errors import ConfigError
from pellucid.extras import import_extra
from pellucid.free_memory import forcing
from pellucid.lab.experiment import Choices, Tuning, design_of_one
from pellucid.lab.tuning import Study
from pellucid.reader import read_toml

#: Fewer trials have no importance.
LEAST_TRIALS = 10
#: Samples of trials, with replacement, behind the interval of an importance.
_SAMPLES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Importance:
    """The share of the variance of the loss that a key explains, with a 90% interval.

    Attributes:
        key: of the config.
        share: between 0 and 1.
        low: the lower end of the interval.
        high: the upper end.
    """

    key: str
    share: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """The trials that reached their end, the best first, and the importance of each key.

    Attributes:
        out: the folder of all trials.
        trials: the held-out loss of each, and its values by key.
        n_stopped: trials that were stopped early.
        importances: the most important key first.
    """

    out: Path
    trials: tuple[tuple[float, Mapping[str, Any]], ...]
    n_stopped: int
    importances: tuple[Importance, ...]


def sweep(
    space: str | Path,
    *words: str | Path,
    trials: int = 20,
    out: str | Path | None = None,
    storage: str | None = None,
    notify: Callable[[str], None] = print,
    force: bool = False,
    **choices: Unpack[Choices],
) -> Sweep:
    """Search a space of configs. The same call continues, also in several processes.

    Args:
        space: a TOML file with keys of a config. A value is a range, such as
            "1e-4..0.1", or a list of values.
        *words: a config, as a TOML file or the name of a preset (default: nano); and the data.
        trials: how many trials; each is a run with another config, on one seed.
        out: the folder of all trials; by default one that the same call finds again.
        storage: as for `compare`.
        notify: takes a line for each trial that is over.
        force: train even if pellucid expects to need more memory than is free.
        **choices: as for `compare`.

    Raises:
        ConfigError: the space has no key, or one that the config does not have.
        PellucidError: as `pellucid.train`.
    """
    import_extra("lab", "optuna")
    if trials < 1:
        raise ConfigError(f"trials must be at least 1, was {trials}")
    keys, lists = _read_space(Path(space))
    tuning = Tuning(keys=tuple(keys), choices=tuple(lists), trials=trials, storage=storage)
    experiment = design_of_one(words, "sweep", out=out, tuning=tuning, choices=choices)
    (variant,) = experiment.variants
    with forcing(force):
        study = Study(experiment, variant, tuning, notify)
        study.tune()
    complete = study.complete_trials()
    return Sweep(
        out=experiment.out,
        trials=tuple(
            (float(trial.value), dict(trial.params))
            for trial in sorted(complete, key=lambda trial: trial.value)
        ),
        n_stopped=trials - len(complete),
        importances=tuple(_importances(complete, [key.path for key in study.keys])),
    )


def _importances(trials: list[Any], keys: list[str]) -> Iterator[Importance]:
    """The importance of each key, the largest first; none for too few trials.

    Source: Watanabe et al. 2023, "PED-ANOVA: Efficiently Quantifying Hyperparameter Importance in
    Arbitrary Subspaces". The interval is a bootstrap over trials.
    """
    if len(trials) < LEAST_TRIALS or len(keys) < 2:
        return
    shares = _shares(trials, keys)
    random = np.random.default_rng(0)
    samples = [
        _shares([trials[i] for i in random.integers(len(trials), size=len(trials))], keys)
        for _ in range(_SAMPLES)
    ]
    for key in sorted(keys, key=lambda key: -shares[key]):
        low, high = np.quantile([sample[key] for sample in samples], (0.05, 0.95))
        yield Importance(key=key, share=shares[key], low=float(low), high=float(high))


def _shares(trials: Iterable[Any], keys: list[str]) -> dict[str, float]:
    """The importances by optuna of a study with these trials."""
    optuna: Any = import_extra("lab", "optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study()
    study.add_trials(list(trials))
    evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=0.25)
    shares = cast(
        "dict[str, float]", optuna.importance.get_param_importances(study, evaluator=evaluator)
    )
    return {key: float(shares.get(key, 0.0)) for key in keys}


def _read_space(file: Path) -> tuple[list[str], list[tuple[str, tuple[Any, ...]]]]:
    """The ranges, and the lists of values, of the keys of a space."""
    keys: list[str] = []
    lists: list[tuple[str, tuple[Any, ...]]] = []
    for key, value in flatten(read_toml(file)).items():
        if isinstance(value, list):
            lists.append((key, tuple(cast("list[Any]", value))))
        elif isinstance(value, str) and ".." in value:
            keys.append(f"{key}={value}")
        else:
            raise ConfigError(
                f'{file}: {key} = {value!r}: expected a range such as "0.001..0.1", or a list of '
                "values"
            )
    if not keys and not lists:
        raise ConfigError(f'{file} names no key: write one, such as learning_rate = "1e-4..0.1"')
    return keys, lists
