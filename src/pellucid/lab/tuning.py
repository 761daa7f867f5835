"""Tuning: every variant gets the same number of trials, on a seed that is never reported.

optuna proposes the values and stops hopeless trials early. Its storage lets any number of processes
and machines take trials: a study is over once so many trials are over, whoever ran them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pellucid import config
from pellucid.config import encode
from pellucid.errors import ConfigError, Interrupted, PellucidError, RunError
from pellucid.extras import import_extra
from pellucid.lab.experiment import Experiment, Tuning, Variant, digest
from pellucid.lab.outcome import LOSS, outcome_of
from pellucid.lab.search_space import chosen_key, tuned_key, with_values
from pellucid.lab.train_runs import PATIENCE, DataHashes, claimed, train_once
from pellucid.training import Evaluated, Event, Interrupts

#: The seed of every trial. Reported seeds count from 0.
TUNING_SEED = 1_000_003
#: So many trials come before one is stopped early, and each has so many evaluations.
_STARTUP_TRIALS, _EVALUATIONS = 3, 5

#: Takes a line for each trial that is over.
Notify = Callable[[str], None]


def tune_all(experiment: Experiment, notify: Notify = lambda line: None) -> Experiment:
    """The experiment with every variant at its best values; as it is without tuning.

    Args:
        experiment: the variants, and what to tune.
        notify: takes a line for each trial.

    Raises:
        ConfigError: a variant has no such key, or optuna is missing.
        RunError: no trial of a variant reached its end.
    """
    tuning = experiment.tuning
    if tuning is None:
        return experiment
    if TUNING_SEED in experiment.seeds:
        raise ConfigError(f"seed {TUNING_SEED} is the one of tuning: report other seeds")
    studies = [Study(experiment, variant, tuning, notify) for variant in experiment.variants]
    return replace(experiment, variants=tuple(study.tune() for study in studies))


@dataclass(slots=True)
class _Pruner:
    """An observer that tells optuna each held-out loss, and stops a hopeless trial."""

    trial: Any
    interrupts: Interrupts
    is_pruned: bool = False

    def __call__(self, event: Event) -> None:
        if not isinstance(event, Evaluated) or event.step == 0:
            return
        self.trial.report(event.loss_nats, event.step)
        if self.trial.should_prune():
            self.is_pruned = True
            self.interrupts.asked = True


class Study:
    """The trials of one variant.

    Args:
        experiment: has the folder of all trials.
        variant: the config to tune.
        tuning: the keys, the number of trials, and where they are kept.
        notify: takes a line for each trial that is over.
    """

    def __init__(
        self, experiment: Experiment, variant: Variant, tuning: Tuning, notify: Notify
    ) -> None:
        self._optuna: Any = import_extra("lab", "optuna")
        self._states = self._optuna.trial.TrialState
        self._variant, self._tuning, self._notify = variant, tuning, notify
        self._reward = experiment.reward
        self._folder = experiment.out / "tuning"
        self._folder.mkdir(parents=True, exist_ok=True)
        self.keys = [
            *(tuned_key(variant.run, text) for text in tuning.keys),
            *(chosen_key(variant.run, name, values) for name, values in tuning.choices),
        ]
        self._data = DataHashes()
        # equal configs share their trials
        self.name = digest([encode(variant.run), list(tuning.keys), list(tuning.choices)])
        self._study = self._open(experiment.out)

    def tune(self) -> Variant:
        """Run trials until enough are over, here or elsewhere; the variant at the best values."""
        self._take_over_dead_trials()
        while len(ended_trials := self._ended_trials()) < self._tuning.trials:
            self._study.sampler = self._sampler(len(self._study.trials))
            self._run(self._study.ask(), len(ended_trials) + 1)
        complete = self.complete_trials()
        if not complete:
            raise RunError(
                f"none of {len(ended_trials)} trials of {self._variant.name} reached its end: tune "
                "in a smaller range, such as --tune KEY=LOW..HIGH"
            )
        best = min(complete, key=lambda trial: trial.value)
        values = {key.path: best.params[key.path] for key in self.keys}
        return replace(
            self._variant, run=with_values(self._variant.run, values), tuned=tuple(values.items())
        )

    def complete_trials(self) -> list[Any]:
        """The trials with a value, among the first ones that are over.

        Processes that share a study may run more than they had to; those do not count.
        """
        trials = sorted(self._ended_trials(), key=lambda trial: trial.datetime_complete)
        first_trials = trials[: self._tuning.trials]
        return [trial for trial in first_trials if trial.state == self._states.COMPLETE]

    def _run(self, trial: Any, number: int) -> None:
        values = {key.path: key.suggest(trial) for key in self.keys}
        run = self._trial_config(values)
        path = self._path(run)
        interrupts = Interrupts()
        pruner = _Pruner(trial, interrupts)
        with claimed(path) as is_mine:
            if not is_mine:  # another process runs a trial with the same values
                self._study.tell(trial, state=self._states.FAIL)
                time.sleep(PATIENCE)
                return
            try:
                outcome, _ = train_once(
                    run,
                    path,
                    self._data,
                    reward=self._reward,
                    observers=[pruner],
                    interrupts=interrupts,
                )
                value = outcome.value(LOSS)
            except Interrupted:
                if not pruner.is_pruned:
                    raise  # the trial stays open: the next call takes it over
                value = None
            except PellucidError:
                self._study.tell(trial, state=self._states.FAIL)
                raise
            if value is None:
                self._study.tell(trial, state=self._states.PRUNED)
            else:
                self._study.tell(trial, value)
        numbers = ", ".join(f"{path} = {format_value(number)}" for path, number in values.items())
        end = "stopped early" if value is None else f"loss {value:.4f}"
        head = f"tuning {self._variant.name}, trial {number} of {self._tuning.trials}"
        self._notify(f"{head}: {numbers}: {end}")

    def _trial_config(self, values: dict[str, Any]) -> config.Run:
        """The config of a trial, evaluated often enough to stop it early."""
        run = replace(with_values(self._variant.run, values), seed=TUNING_SEED)
        settings = run.training
        if isinstance(settings.budget, config.Steps):
            every = max(1, settings.budget.count // _EVALUATIONS)
            settings = replace(settings, evaluate_every=min(settings.evaluate_every, every))
        return replace(run, training=settings)

    def _path(self, run: config.Run) -> Path:
        return Variant(name="trial", run=run).folder(self._folder, TUNING_SEED)

    def _ended_trials(self) -> Sequence[Any]:
        states = (self._states.COMPLETE, self._states.PRUNED)
        return self._study.get_trials(deepcopy=False, states=states)

    def _take_over_dead_trials(self) -> None:
        """Queue again, with its values, each open trial whose process is gone; then the start."""
        with claimed(self._folder / self.name) as is_mine:
            if not is_mine:
                return
            for trial in self._study.get_trials(deepcopy=False, states=(self._states.RUNNING,)):
                if trial.params.keys() != {key.path for key in self.keys}:
                    continue
                path = self._path(self._trial_config(trial.params))
                with claimed(path) as is_dead:
                    if is_dead and path.is_dir() and not outcome_of(path).is_over:
                        self._study.tell(trial.number, state=self._states.FAIL)
                        self._study.enqueue_trial(trial.params)
            if not self._study.trials and all(key.includes_start() for key in self.keys):
                self._study.enqueue_trial({key.path: key.start for key in self.keys})

    def _open(self, out: Path) -> Any:
        optuna = self._optuna
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        storage = self._tuning.storage or f"sqlite:///{out / 'tuning.db'}"
        try:
            return optuna.create_study(
                study_name=self.name,
                storage=open_storage(optuna, storage),
                sampler=self._sampler(0),
                pruner=optuna.pruners.MedianPruner(n_startup_trials=_STARTUP_TRIALS),
                load_if_exists=True,
            )
        except Exception as error:  # of any database
            if isinstance(error, PellucidError):
                raise
            raise ConfigError(
                f"--storage {storage} cannot be opened ({error}): give the path of a journal file, "
                "or the URL of a database, such as sqlite:///tuning.db"
            ) from None

    def _sampler(self, n_trials: int) -> Any:
        """The same proposals in every repetition, and other ones in each process that shares."""
        seed = (int(self.name, 16) + n_trials) % 2**32
        return self._optuna.samplers.TPESampler(seed=seed)


def format_value(value: object) -> str:
    """A value of a trial, a number in three digits."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def open_storage(optuna: Any, storage: str) -> Any:
    """A database by its URL, or a journal file, which may lie on a shared folder."""
    if "://" in storage:
        # nothing says when a study is over, so no connection stays open between two questions
        no_pool = import_extra("lab", "sqlalchemy.pool").NullPool
        options: dict[str, Any] = {"poolclass": no_pool}
        if storage.startswith("sqlite"):
            options["connect_args"] = {"timeout": 60}
        return optuna.storages.RDBStorage(storage, engine_kwargs=options)
    with suppress(FileExistsError):
        Path(storage).parent.mkdir(parents=True, exist_ok=True)
    backend = optuna.storages.journal.JournalFileBackend(storage)
    return optuna.storages.JournalStorage(backend)
