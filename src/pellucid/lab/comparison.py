"""A comparison as values: each variant with its runs, each pair with its difference and verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

from pellucid import config
from pellucid.config import encode
from pellucid.config.codec import flatten
from pellucid.counting import parameter_count
from pellucid.display.metric_labels import Measured, in_order, measured
from pellucid.errors import ConfigError
from pellucid.lab.experiment import Experiment, Variant, digest
from pellucid.lab.flops import training_flops
from pellucid.lab.outcome import LOSS, PER_BYTE, REWARD, Outcome, finite_or_none
from pellucid.lab.statistics import (
    Difference,
    Interval,
    holm,
    mean_interval,
    paired_difference,
)
from pellucid.lab.verdict import verdict
from pellucid.runs.memory_budget import estimate_training
from pellucid.runs.prepare_text import data_file_hashes
from pellucid.saved_runs.folder import RunFolder
from pellucid.saved_runs.load import read_config

#: Two runs of one config differ by less than this many standard deviations, in 19 of 20 cases.
_BETWEEN_TWO = 1.96 * math.sqrt(2)
_ALONE = "one variant has no partner: this is how much it varies between seeds; add another"


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantResult:
    """A variant, its `name` and config (`run`), with its runs: `outcomes` has one for each seed.

    `values` are the measure at the end of each run; None if the run met a value that is not finite.
    `mean`, its 95% `interval` and the standard `deviation` are over the seeds. `tuned` has the keys
    that tuning chose, with their values. `parameters` counts the numbers of the model.
    `memory_bytes` is the expected peak, and `flops` counts forward and backward of a whole run.
    `tokens_per_second` is the median of the runs.
    """

    name: str
    run: config.Run
    tuned: tuple[tuple[str, Any], ...]
    outcomes: tuple[Outcome, ...]
    values: tuple[float | None, ...]
    mean: float | None
    interval: Interval | None
    deviation: float | None
    parameters: int
    flops: float | None
    tokens_per_second: float | None
    memory_bytes: int

    @property
    def n(self) -> int:
        """How many seeds have a value."""
        return len(finite(self.values))


@dataclass(frozen=True, slots=True, kw_only=True)
class PairResult:
    """Two variants, `names`: `difference` is the second minus the first, over the seeds of both.

    `p` is from the paired t-test, after Holm's correction for all pairs. `verdict` is one sentence.
    `is_identical` says whether the configs are equal, and all values with them.
    """

    names: tuple[str, str]
    difference: Difference
    p: float | None
    verdict: str
    is_identical: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All results of an experiment. `notes` say what a reader should know of its fairness.

    `corpus` is the digest of the texts: only results with the same one compare.

    Attributes:
        out: the folder of all runs.
        measure: what is compared, with its unit.
        seeds: of the runs of each variant.
        variants: the results, in the order of the call.
        pairs: every two variants.
        differing_keys: keys of the config that differ, with the value of each variant.
    """

    out: Path
    corpus: str
    measure: Measured
    seeds: tuple[int, ...]
    variants: tuple[VariantResult, ...]
    pairs: tuple[PairResult, ...]
    differing_keys: Mapping[str, tuple[Any, ...]]
    notes: tuple[str, ...]

    @property
    def noise(self) -> float | None:
        """The standard deviation over seeds of one config, pooled over the variants."""
        groups = [v for v in self.variants if v.deviation is not None]
        freedom = sum(variant.n - 1 for variant in groups)
        if not freedom:
            return None
        squares = sum((v.n - 1) * v.deviation**2 for v in groups if v.deviation is not None)
        return math.sqrt(squares / freedom)

    @property
    def noise_between_runs(self) -> float | None:
        """Two runs of one config differ by less than this in 19 of 20 cases."""
        return None if self.noise is None else _BETWEEN_TWO * self.noise


def compare_outcomes(
    experiment: Experiment, outcomes: Mapping[Path, Outcome], *, measure: str | None = None
) -> Comparison:
    """Compare the finished runs of an experiment.

    Args:
        experiment: the variants and the seeds.
        outcomes: what became of each run, by its folder.
        measure: the measure to compare; by default bits per byte, the reward, or else the loss.

    Raises:
        ConfigError: not every variant has this measure, or the variants cannot be compared by it.
    """
    by_variant = {
        variant.name: tuple(
            outcomes[variant.folder(experiment.out, seed)] for seed in experiment.seeds
        )
        for variant in experiment.variants
    }
    name = _choose_measure(experiment.variants, list(by_variant.values()), measure)
    results = tuple(
        _result(variant, by_variant[variant.name], name) for variant in experiment.variants
    )
    return Comparison(
        out=experiment.out,
        corpus=corpus_digest(experiment.variants[0].run.text),
        measure=measured(name),
        seeds=experiment.seeds,
        variants=results,
        pairs=_pairs(results, measured(name)),
        differing_keys=_differing_keys(experiment.variants),
        notes=tuple(_notes(results)),
    )


def corpus_digest(text: config.Text) -> str:
    """The digest of the texts that runs of a config read, as they are today.

    The folders and the names of the files do not count, nor does the tokenizer.

    Args:
        text: the texts of a config.

    Raises:
        TextError: a file cannot be read.
    """
    hashes = sorted(file["sha256"] for file in data_file_hashes(text)["files"])
    table = encode(text.corpus).items()
    columns = {key: value for key, value in table if key not in ("path", "paths")}
    return digest([hashes, columns, text.held_out, text.drop_duplicates])


def finite(values: Sequence[float | None]) -> list[float]:
    """The values that there are."""
    return [value for value in values if value is not None]


def _result(variant: Variant, outcomes: tuple[Outcome, ...], measure: str) -> VariantResult:
    values = tuple(finite_or_none(outcome.value(measure)) for outcome in outcomes)
    numbers = finite(values)
    speeds = [o.terms_per_second for o in outcomes if o.terms_per_second is not None]
    terms = [outcome.terms for outcome in outcomes if outcome.state == "finished"]
    # the saved config knows the vocabulary
    run = read_config(RunFolder(outcomes[0].folder))
    mean = math.fsum(numbers) / len(numbers) if numbers else None
    return VariantResult(
        name=variant.name,
        run=variant.run,
        tuned=variant.tuned,
        outcomes=outcomes,
        values=values,
        mean=mean,
        interval=mean_interval(numbers),
        deviation=paired_difference([0.0] * len(numbers), numbers).deviation,
        parameters=parameter_count(run.model),
        flops=median(terms) * training_flops(run) if terms else None,
        tokens_per_second=median(speeds) if speeds else None,
        memory_bytes=estimate_training(run).n_bytes,
    )


def _pairs(results: Sequence[VariantResult], measure: Measured) -> tuple[PairResult, ...]:
    couples = list(combinations(results, 2))
    differences = [_difference(first, second) for first, second in couples]
    adjusted = holm([difference.p for difference in differences])
    return tuple(
        PairResult(
            names=(first.name, second.name),
            difference=difference,
            p=p,
            is_identical=first.run == second.run and difference.identical,
            verdict=verdict(
                (first.name, second.name),
                difference,
                measure,
                p=p,
                n_pairs=len(couples),
                equal_configs=first.run == second.run,
            ),
        )
        for (first, second), difference, p in zip(couples, differences, adjusted, strict=True)
    )


def _difference(first: VariantResult, second: VariantResult) -> Difference:
    """Over the seeds with which both have a value."""
    couples = [
        (a, b)
        for a, b in zip(first.values, second.values, strict=True)
        if a is not None and b is not None
    ]
    return paired_difference([a for a, _ in couples], [b for _, b in couples])


def _choose_measure(
    variants: Sequence[Variant], groups: Sequence[Sequence[Outcome]], measure: str | None
) -> str:
    names = [
        {name for outcome in group if outcome.state == "finished" for name in outcome.measures}
        for group in groups
    ]
    finished = [group for group in names if group]
    shared = finished[0].intersection(*finished[1:]) if finished else set[str]()
    if measure is not None and shared and measure not in shared:
        choices = ", ".join(m.name for m, _ in in_order((name, 0.0) for name in shared))
        raise ConfigError(f"--measure {measure}: the runs have {choices}")
    defaults = [default for default in (PER_BYTE, REWARD) if default in shared or not shared]
    name = measure or (*defaults, LOSS)[0]
    units = {outcome.unit for group in groups for outcome in group}
    tokenizers = {variant.run.text.tokenizer for variant in variants}
    if name == LOSS and (len(units) > 1 or len(tokenizers) > 1):
        raise ConfigError(
            "the variants have other tokenizers or objectives, so a loss of one is not a loss of "
            "the other: name a measure that both have with --measure"
        )
    return name


def _differing_keys(variants: Sequence[Variant]) -> dict[str, tuple[Any, ...]]:
    """Each key of the configs whose value is not the same everywhere; None where it is absent."""
    flat = [flatten(encode(variant.run)) for variant in variants]
    keys = dict.fromkeys(key for table in flat for key in table)
    values = {key: tuple(table.get(key) for table in flat) for key in keys}
    return {key: row for key, row in values.items() if any(value != row[0] for value in row)}


def _notes(results: Sequence[VariantResult]) -> list[str]:
    """What makes the comparison less than fair, or a value absent."""
    notes = [_ALONE] if len(results) == 1 else []
    first = results[0].run
    if any(result.run.training.budget != first.training.budget for result in results):
        notes.append(
            "the budgets differ, as the configs say: name one with --steps, --tokens, --minutes or "
            "--flops"
        )
    same_rows = ("batch_size", "growth", "documents_apart")
    if any(
        result.run.text.tokenizer != first.text.tokenizer
        or result.run.model.context_length != first.model.context_length
        or any(
            getattr(result.run.training, key) != getattr(first.training, key) for key in same_rows
        )
        for result in results
    ):
        notes.append(
            "tokenizer, context or batch differ, so a seed cannot give all variants the same "
            "batches: pairs share less, and intervals are wider"
        )
    for result in results:
        for outcome in result.outcomes:
            if outcome.state == "not finite":
                notes.append(
                    f"{result.name} met a value that is not finite ({outcome.stopped}) in "
                    f"{outcome.folder.name}: this seed has no value"
                )
    return notes
