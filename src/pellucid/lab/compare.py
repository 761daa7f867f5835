"""`pellucid.compare`: which variant is better, and how sure that is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Unpack

from pellucid.errors import ConfigError
from pellucid.extras import import_extra
from pellucid.lab.comparison import Comparison, compare_outcomes, corpus_digest
from pellucid.lab.experiment import Choices, Tuning, design
from pellucid.lab.results import Result, check_same_corpus, read_result
from pellucid.lab.workers import train_all


def compare(
    *words: str | Path | Iterable[str | Path],
    seeds: int | Sequence[int] = 5,
    out: str | Path | None = None,
    workers: int = 1,
    tune: Iterable[str] = (),
    trials: int = 10,
    storage: str | None = None,
    measure: str | None = None,
    against: Iterable[str | Path | Result] = (),
    notify: Callable[[str], None] = print,
    force: bool = False,
    **choices: Unpack[Choices],
) -> Comparison:
    """Train variants on the same data with the same seeds, and compare them in pairs.

    Every variant and seed is an ordinary run in the folder `out`. A run that is there is not
    trained again, so you can stop at any time, call again, and add seeds and variants.

    Args:
        *words: the variants, as TOML files or names of presets, and the paths of the data; one by
            one or in lists. Without data, the documentation of Python's standard library.
        seeds: how many seeds, from 0 on, or the seeds themselves.
        out: the folder of all runs; by default one that the same call finds again.
        workers: the number of processes.
        tune: keys that each variant tunes first, such as "learning_rate" or
            "weight_decay=0.01..0.3"; each variant gets the same number of trials.
        trials: how many trials that is.
        storage: the trials, as the URL of a database or the path of a journal file, so that
            several machines share them; by default a file in `out`.
        measure: the measure to compare; by default bits per byte, the reward, or else the held-out
            loss.
        against: results of other comparisons, or their files; they must be of the same corpus.
        notify: takes a line for each run that is over.
        force: train even if pellucid expects to need more memory than is free.
        **choices: for all variants: one of `steps`, `tokens`, `minutes` and `flops`, and
            `objective`, `start`, `reward`, `preset`, `field`, `columns`, `device`, `settings`.

    Raises:
        ConfigError: nothing to compare, an unknown key, or a package of the extra is missing.
        RunError: the data have changed since runs in `out` were trained, or a result is of
            another corpus.
        PellucidError: as `pellucid.train`.
    """
    tuning = _tuning(list(tune), trials, storage)
    import_extra("lab", "scipy.stats", *(["optuna"] if tuning else []))
    flat = [word for item in words for word in _as_list(item)]
    experiment = design(flat, seeds=seeds, out=out, tuning=tuning, choices=choices)
    for source in against:
        result = source if isinstance(source, Result) else read_result(Path(source))
        check_same_corpus(corpus_digest(experiment.variants[0].run.text), result)
    experiment, outcomes = train_all(experiment, workers, notify, force=force)
    return compare_outcomes(experiment, outcomes, measure=measure)


def _tuning(keys: list[str], trials: int, storage: str | None) -> Tuning | None:
    if not keys:
        if storage is not None:
            raise ConfigError(f"--storage {storage}: it keeps the trials of --tune: add --tune KEY")
        return None
    if trials < 1:
        raise ConfigError(f"trials must be at least 1, was {trials}")
    return Tuning(keys=tuple(keys), trials=trials, storage=storage)


def _as_list(item: str | Path | Iterable[str | Path]) -> list[str | Path]:
    return [item] if isinstance(item, str | Path) else list(item)
