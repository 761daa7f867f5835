"""A ladder for programs: JSON, and a CSV file in its folder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pellucid.checkpoints import write_text
from pellucid.lab.files import csv_text
from pellucid.lab.scaling import Check, Rungs, Scaling


def scaling_facts(scaling: Scaling) -> dict[str, Any]:
    """The ladder as `pellucid scaling --json` prints it."""
    law = scaling.law
    return {
        "law": None
        if law is None
        else {
            "form": "L = E + A / N^a + B / D^b",
            "constants": {
                constant.name: {
                    "value": constant.value,
                    "interval": list(constant.interval),
                    "determined": not constant.doubt,
                }
                for constant in law.constants()
            },
            "runs": law.n_runs,
        },
        "runs": [
            {
                "size": rungs.n_weights,
                "tokens": rungs.n_tokens,
                "losses": list(rungs.losses),
                "mean": rungs.mean,
                "expected": _expected(scaling, rungs),
                "tokens_per_second": rungs.tokens_per_second,
                "folders": [str(outcome.folder) for outcome in rungs.outcomes],
            }
            for rungs in scaling.ladder
        ],
        "predictions": [_check_facts(check) for check in scaling.checks],
        "prediction_error": scaling.error,
        "best_sizes": [asdict(best) for best in scaling.best],
        "measure": scaling.measure.name,
        "seeds": list(scaling.seeds),
        "notes": list(scaling.notes),
        "folder": str(scaling.out),
    }


def write_scaling_table(scaling: Scaling) -> Path:
    """Write `scaling.csv`, a row for each run; returns its path."""
    file = scaling.out / "scaling.csv"
    write_text(file, csv_text(_rows(scaling)))
    return file


def _check_facts(check: Check) -> dict[str, Any]:
    return {
        "size": check.rungs.n_weights,
        "tokens": check.rungs.n_tokens,
        "predicted": check.predicted,
        "interval": list(check.interval),
        "measured": check.rungs.mean,
        "losses": list(check.rungs.losses),
        "error": check.error,
        "inside": check.is_inside,
    }


def _rows(scaling: Scaling) -> Iterable[Sequence[object]]:
    yield (
        "size",
        "tokens",
        "seed",
        scaling.measure.name,
        "law",
        "used_for",
        "tokens_per_second",
        "state",
        "folder",
    )
    checked = [check.rungs for check in scaling.checks]
    for purpose, all_rungs in (("fit", scaling.ladder), ("check", checked)):
        for rungs in all_rungs:
            expected = _expected(scaling, rungs)
            for seed, loss, run in zip(scaling.seeds, rungs.losses, rungs.outcomes, strict=True):
                numbers = (rungs.n_weights, run.terms, seed, loss, expected, purpose)
                yield (*numbers, run.terms_per_second, run.state, run.folder)


def _expected(scaling: Scaling, rungs: Rungs) -> float | None:
    law = scaling.law
    return None if law is None else float(law.losses([rungs.n_weights], [rungs.n_tokens])[0])
