"""`pellucid scaling`: how the loss falls with size and tokens, and which size is best here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Unpack

from pellucid.config import Run
from pellucid.data import open_prepared
from pellucid.data.manifest import ShardFacts
from pellucid.display.metric_labels import Measured, measured
from pellucid.display.numbers import short
from pellucid.errors import ConfigError
from pellucid.extras import import_extra
from pellucid.lab.best_size import BestSize, best_sizes
from pellucid.lab.experiment import Choices, Experiment, Variant, design_of_one
from pellucid.lab.ladder import Rung, ladder, lengths
from pellucid.lab.outcome import LOSS, PER_BYTE, Outcome, finite_or_none
from pellucid.lab.scaling_law import LEAST_RUNS, Law, Point, fit_law
from pellucid.lab.statistics import Interval
from pellucid.lab.workers import train_all
from pellucid.saved_runs.folder import RunFolder

#: The minutes for which a best size is predicted.
BUDGETS = (10.0, 60.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rungs:
    """The runs of one size and length, one for each seed; a loss is None if it is not finite.

    `n_tokens` and `tokens_per_second` are medians.
    """

    name: str
    run: Run
    n_weights: int
    n_tokens: float
    tokens_per_second: float | None
    losses: tuple[float | None, ...]
    outcomes: tuple[Outcome, ...]

    @property
    def mean(self) -> float | None:
        """The mean loss of the seeds that have one."""
        losses = [loss for loss in self.losses if loss is not None]
        return fmean(losses) if losses else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A prediction of the law, and what a real run of that size gave. `error` is relative."""

    rungs: Rungs
    predicted: float
    interval: Interval
    error: float

    @property
    def is_inside(self) -> bool:
        """Whether the measured loss lies in the interval of the prediction."""
        low, high = self.interval
        return self.rungs.mean is not None and low <= self.rungs.mean <= high


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """A ladder with its law; without a law, `notes` say why, and nothing is predicted.

    Attributes:
        out: the folder of all runs.
        measure: what the law predicts.
        seeds: of each size.
        ladder: the sizes, with their runs.
        law: the fit; None if there is none.
        checks: predictions with what was measured.
        best: the best size for each time.
    """

    out: Path
    measure: Measured
    seeds: tuple[int, ...]
    ladder: tuple[Rungs, ...]
    law: Law | None
    checks: tuple[Check, ...]
    best: tuple[BestSize, ...]
    notes: tuple[str, ...]

    @property
    def error(self) -> float | None:
        """The mean size of the relative errors of all predictions."""
        return fmean(abs(check.error) for check in self.checks) if self.checks else None


def scaling(
    *words: str | Path,
    sizes: int | Sequence[int] = 4,
    seeds: int | Sequence[int] = 1,
    budget: Sequence[float] = BUDGETS,
    out: str | Path | None = None,
    workers: int = 1,
    notify: Callable[[str], None] = print,
    force: bool = False,
    **choices: Unpack[Choices],
) -> Scaling:
    """Train a ladder of sizes, fit L = E + A/N^a + B/D^b, and check it on the next size.

    Each size is trained for the whole budget, a half and a quarter of it. Every run is an ordinary
    run in the folder `out`; the same call continues after a stop.

    Args:
        *words: a config, as a TOML file or the name of a preset (default: nano); and the data.
        sizes: how many sizes, each with twice the weights of the one before, up to the config's
            own; or how many weights each has.
        seeds: how many runs of each size and length, or their seeds.
        budget: minutes of training on this machine, for which the best size is predicted.
        out: the folder of all runs; by default one that the same call finds again.
        workers: the number of processes.
        notify: takes a line for each run that is over.
        force: train even if pellucid expects to need more memory than is free.
        **choices: as for `compare`; the longest training of each size gets the whole budget.

    Raises:
        ConfigError: fewer than three sizes, or several configs.
        PellucidError: as `pellucid.train`.
    """
    import_extra("lab", "scipy.optimize")
    if not budget or not all(minutes > 0 for minutes in budget):
        raise ConfigError(f"budget must be minutes above 0, was {list(budget)}")
    experiment = design_of_one(words, "scaling", seeds=seeds, out=out, choices=choices)
    (base,) = experiment.variants
    *rungs, next_rung = ladder(base.run, sizes)

    def train(rungs: Sequence[Rung], out: Path) -> tuple[Rungs, ...]:
        """Each size and length in its order."""
        flops = choices.get("flops")
        steps = [variant for rung in rungs for variant in lengths(rung, base.name, flops)]
        trial = replace(experiment, variants=tuple(steps), out=out)
        _, outcomes = train_all(trial, workers, notify, force=force)
        counts = [rung.n_weights for rung in rungs for _ in lengths(rung, base.name, flops)]
        return tuple(
            _rungs(trial, step, count, outcomes) for step, count in zip(steps, counts, strict=True)
        )

    trained = train(rungs, experiment.out)
    law = fit_law(_points(trained))
    checked: tuple[Rungs, ...] = ()
    if law is not None:
        notify(f"the law of {law.n_runs} runs is fixed; now {short(next_rung.n_weights)} checks it")
        checked = train([next_rung], experiment.out / "next")
    return Scaling(
        out=experiment.out,
        measure=measured(_measure(trained)),
        seeds=experiment.seeds,
        ladder=trained,
        law=law,
        checks=() if law is None else tuple(_checks(law, checked, len(experiment.seeds))),
        best=()
        if law is None
        else best_sizes(law, _speeds((*trained, *checked)), budget, _most_tokens(trained)),
        notes=tuple(_notes(trained, checked, law)),
    )


def _rungs(
    experiment: Experiment, variant: Variant, n_weights: int, outcomes: Mapping[Path, Outcome]
) -> Rungs:
    runs = [outcomes[variant.folder(experiment.out, seed)] for seed in experiment.seeds]
    speeds = [run.terms_per_second for run in runs if run.terms_per_second]
    return Rungs(
        name=variant.name,
        run=variant.run,
        n_weights=n_weights,
        n_tokens=median(run.terms for run in runs),
        tokens_per_second=median(speeds) if speeds else None,
        losses=tuple(finite_or_none(run.value(_measure_of(run))) for run in runs),
        outcomes=tuple(runs),
    )


def _measure_of(run: Outcome) -> str:
    return PER_BYTE if PER_BYTE in run.measures else LOSS


def _measure(trained: Sequence[Rungs]) -> str:
    return _measure_of(trained[0].outcomes[0])


def _points(trained: Sequence[Rungs]) -> list[Point]:
    """Every run that has a loss."""
    return [
        Point(rungs.n_weights, outcome.terms, loss)
        for rungs in trained
        for outcome, loss in zip(rungs.outcomes, rungs.losses, strict=True)
        if loss is not None
    ]


def _checks(law: Law, checked: Sequence[Rungs], n_seeds: int) -> list[Check]:
    checks: list[Check] = []
    for rungs in checked:
        if rungs.mean is None:
            continue
        predicted = float(law.losses([rungs.n_weights], [rungs.n_tokens])[0])
        checks.append(
            Check(
                rungs=rungs,
                predicted=predicted,
                interval=law.interval(rungs.n_weights, rungs.n_tokens, n_seeds),
                error=predicted / rungs.mean - 1,
            )
        )
    return checks


def _speeds(trained: Sequence[Rungs]) -> dict[int, float]:
    """The tokens per second of each size."""
    by_size: dict[int, list[float]] = {}
    for rungs in trained:
        if rungs.tokens_per_second:
            by_size.setdefault(rungs.n_weights, []).append(rungs.tokens_per_second)
    return {size: median(speeds) for size, speeds in by_size.items()}


def _notes(trained: Sequence[Rungs], checked: Sequence[Rungs], law: Law | None) -> list[str]:
    """What a reader should know before trusting the law."""
    notes: list[str] = []
    for rungs in (*trained, *checked):
        for outcome in rungs.outcomes:
            if outcome.state == "not finite":
                notes.append(
                    f"{outcome.folder.name} met a value that is not finite ({outcome.stopped}): it "
                    "has no loss"
                )
    n_runs = len(_points(trained))
    if law is None:
        notes.append(
            f"no law is fitted: {n_runs} runs with a loss above 0; five constants need at least "
            f"{LEAST_RUNS}, of three sizes"
        )
        return notes
    notes += [
        f"{constant.name} is not determined: {constant.doubt}"
        for constant in law.constants()
        if constant.doubt and constant.name not in "AB"
    ]
    losses = [point.loss for point in _points(trained)]
    spread = max(losses) - min(losses)
    for rungs in checked[-1:]:
        low, high = law.interval(rungs.n_weights, rungs.n_tokens)
        if high - low > spread:
            notes.append(
                "the prediction of the next size says nothing: its interval is wider than the "
                "range of all losses"
            )
    side = open_prepared(RunFolder(trained[0].outcomes[0].folder).text).manifest.train
    if isinstance(side, ShardFacts) and (times := _most_tokens(trained) / side.n_tokens) > 1.5:
        notes.append(
            f"the longest runs read the data {times:.1f} times: repeated text teaches less than "
            "new text, and the law does not tell them apart"
        )
    return notes


def _most_tokens(trained: Sequence[Rungs]) -> float:
    return max(rungs.n_tokens for rungs in trained)
