"""A comparison for programs: JSON, and two CSV files in its folder."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pellucid.checkpoints import write_text
from pellucid.lab.comparison import Comparison, PairResult, VariantResult


def comparison_facts(comparison: Comparison) -> dict[str, Any]:
    """The comparison as `pellucid compare --json` prints it."""
    return {
        "variants": [_variant_facts(variant) for variant in comparison.variants],
        "pairs": [_pair_facts(pair) for pair in comparison.pairs],
        "measure": comparison.measure.name,
        "better": comparison.measure.better or None,
        "seeds": list(comparison.seeds),
        "noise": {
            "standard_deviation": comparison.noise,
            "between_two_runs": comparison.noise_between_runs,
        },
        "differs": {key: list(values) for key, values in comparison.differing_keys.items()},
        "notes": list(comparison.notes),
        "corpus": comparison.corpus,
        "folder": str(comparison.out),
    }


def write_tables(comparison: Comparison) -> tuple[Path, Path]:
    """Write `runs.csv`, a row for each run, and `pairs.csv`; returns their paths."""
    runs, pairs = comparison.out / "runs.csv", comparison.out / "pairs.csv"
    write_text(runs, csv_text(_run_rows(comparison)))
    write_text(pairs, csv_text(_pair_rows(comparison)))
    return runs, pairs


def _variant_facts(variant: VariantResult) -> dict[str, Any]:
    return {
        "name": variant.name,
        "mean": variant.mean,
        "interval": None if variant.interval is None else list(variant.interval),
        "n": variant.n,
        "values": list(variant.values),
        "tokens_per_second": variant.tokens_per_second,
        "parameters": variant.parameters,
        "flops": variant.flops,
        "memory_bytes": variant.memory_bytes,
        "standard_deviation": variant.deviation,
        "tuned": dict(variant.tuned),
        "runs": [str(outcome.folder) for outcome in variant.outcomes],
    }


def _pair_facts(pair: PairResult) -> dict[str, Any]:
    difference, permutation = pair.difference, pair.difference.permutation
    return {
        "names": list(pair.names),
        "difference": difference.mean if difference.n else None,
        "interval": None if difference.interval is None else list(difference.interval),
        "p": pair.p,
        "verdict": pair.verdict,
        "n": difference.n,
        "p_alone": difference.p,
        "p_permutation": None if permutation is None else permutation.p,
        "least_p_permutation": None if permutation is None else permutation.least,
        "exact_permutation": None if permutation is None else permutation.exact,
        "seeds_needed": difference.n_needed,
        "identical": pair.is_identical,
    }


def _run_rows(comparison: Comparison) -> Iterable[Sequence[object]]:
    yield (
        "variant",
        "seed",
        comparison.measure.name,
        "state",
        "step",
        "tokens",
        "tokens_per_second",
        "seconds",
        "parameters",
        "flops",
        "vital_signs",
        "folder",
    )
    for variant in comparison.variants:
        for seed, value, run in zip(
            comparison.seeds, variant.values, variant.outcomes, strict=True
        ):
            yield (
                variant.name,
                seed,
                value,
                run.state,
                run.step,
                run.terms,
                run.terms_per_second,
                run.seconds,
                variant.parameters,
                variant.flops,
                run.word,
                run.folder,
            )


def _pair_rows(comparison: Comparison) -> Iterable[Sequence[object]]:
    rows = [_pair_facts(pair) for pair in comparison.pairs]
    yield ("first", "second", "difference", "low", "high", "p", "p_permutation", "n", "verdict")
    for row in rows:
        low, high = row["interval"] or (None, None)
        numbers = (row["difference"], low, high, row["p"], row["p_permutation"], row["n"])
        yield (*row["names"], *numbers, row["verdict"])


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(rows)
    return stream.getvalue()
