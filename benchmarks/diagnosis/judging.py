"""A split judged: every record's verdict against the truth, and the answers of the free tools.

Comes in: a folder of records. Goes out: numbers, a table for people, a dated file. It trains
nothing.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.diagnosis import metrics
from benchmarks.diagnosis.baselines import compared
from benchmarks.diagnosis.jobs import HEALTHY, job_of
from benchmarks.diagnosis.metrics import Judged
from benchmarks.diagnosis.outcomes import Band, bands, outcome
from benchmarks.diagnosis.record import Record, read
from benchmarks.diagnosis.repairing import repairs
from benchmarks.diagnosis.setups import HELD_OUT, TUNED
from benchmarks.diagnosis.verdicts import diverged, verdict
from benchmarks.machine import machine

RESULTS = Path(__file__).parent.parent / "results"


def records_in(folder: Path) -> list[Record]:
    """Every record, in the order of names."""
    files = [f for f in sorted(folder.glob("*/*.json")) if f.parent.name in (*TUNED, *HELD_OUT)]
    return [read(file) for file in files]


def judged(
    record: Record, healthy_bands: Mapping[tuple[str, str], Band], *, with_time: bool = True
) -> Judged:
    """One record against the truth."""
    answer, job = verdict(record, with_time=with_time), job_of(record)
    return Judged(
        job=job,
        codes=tuple(answer.codes),
        notes=tuple(finding.code for finding in answer.notes),
        top=None if answer.top is None else answer.top.code,
        confidence=0.0 if answer.top is None else answer.top.confidence,
        location="" if answer.top is None else answer.top.where,
        accepted=tuple(record.get("accepted", ())),
        place=record.get("place", ""),
        outcome=None if job.kind == HEALTHY else outcome(record, healthy_bands),
        first_alarm=answer.first_alarm,
        onset=record.get("onset", 0),
        diverged=diverged(record),
        updates=len(record["losses"]),
    )


def judge_split(
    folder: Path, *, frozen: Mapping[str, str] | None = None, save: bool = False
) -> dict[str, Any]:
    """Every number of a split."""
    records = records_in(folder)
    healthy_bands = bands(records)
    # while a split is still being recorded, leave out records without a healthy run to compare with
    records = [
        record
        for record in records
        if (job_of(record).arch, job_of(record).variant) in healthy_bands
    ]
    runs = [judged(record, healthy_bands) for record in records]
    labels = {run.job.name: [run.job.kind, run.outcome] for run in runs}
    (folder / "labels.json").write_text(json.dumps(labels), encoding="utf-8")
    parts = {
        "all": runs,
        "tuned on": [run for run in runs if run.job.arch in TUNED],
        "never tuned on": [run for run in runs if run.job.arch in HELD_OUT],
    }
    results: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": machine(),
        "frozen": dict(frozen or {}),
        "bands": {f"{a} {v}": asdict(band) for (a, v), band in healthy_bands.items()},
        "ours": {name: metrics.measured(part) for name, part in parts.items() if part},
        "classes": metrics.by_class(runs),
        "healthy_alarms": [[r.job.name, list(r.codes)] for r in runs if r.healthy and r.codes],
        "losing": _losing(runs),
        "others": compared(records, healthy_bands, folder),
        "repair": repairs(folder, healthy_bands),
        "cost": _cost(records),
        "failed": [f.stem for f in sorted(folder.glob("failed/*/*.txt"))],
    }
    if save:
        RESULTS.mkdir(exist_ok=True)
        file = RESULTS / f"diagnosis-{results['date']}.json"
        file.write_text(json.dumps(results, indent=1) + os.linesep, encoding="utf-8")
    return results


def _losing(runs: list[Judged]) -> list[list[Any]]:
    """Every fault that counts and is not named first, by its run's name."""
    missed = [run for run in runs if run.faulty and not run.right]
    return [[run.job.name, str(run.outcome), list(run.codes)[:3]] for run in missed]


def _cost(records: list[Record]) -> dict[str, float]:
    """Seconds of a run; looks were made at their full rate, whatever they cost."""
    seconds = [record["seconds"] for record in records]
    if not seconds:
        return {}
    train = sum(run_seconds["train"] - run_seconds["watching"] for run_seconds in seconds)
    return {
        "runs": len(seconds),
        "check_mean": sum(run_seconds["check"] for run_seconds in seconds) / len(seconds),
        "train_mean": train / len(seconds),
        "watching_share_at_full_rate": sum(run_seconds["watching"] for run_seconds in seconds)
        / train,
    }


def format_results(results: Mapping[str, Any]) -> str:
    """The numbers for people."""
    lines: list[str] = []
    for part, measures in results["ours"].items():
        lines.append(f"{part}: {measures['runs']} runs, {measures['outcomes']}")
        for key, value in measures.items():
            if isinstance(value, dict) and "of" in value:
                lines.append(
                    f"  {key:<20} {value['share']:7.1%}  {value['count']}/{value['of']}"
                    f"  [{value['low']:.1%}, {value['high']:.1%}]"
                )
        lines.append(f"  macro-F1             {measures['macro_f1']:.3f}")
        lines.append(f"  lead                 {measures['lead']}")
        lines.append(f"  calibration error    {measures['calibration']['expected_error']:.3f}")
    lines.append("class: runs, harmful/latent/harmless, detected, named, instead")
    for kind, row in results["classes"].items():
        n_faulty = row["harmful"] + row["latent"]
        flag = " " if row["named"] == n_faulty else "*"
        lines.append(
            f"{flag} {kind:<32} {row['runs']:3}  {row['harmful']}/{row['latent']}/{row['harmless']}"
            f"  {row['detected']}/{n_faulty}  {row['named']}/{n_faulty}  {row['instead'] or ''}"
        )
    lines.append("false alarms:")
    lines += [f"  {name}: {', '.join(codes)}" for name, codes in results["healthy_alarms"]]
    lines.append("others: " + json.dumps(results["others"], indent=1))
    lines.append("repair: " + json.dumps(results["repair"], indent=1))
    lines.append("cost: " + json.dumps(results["cost"]))
    return "\n".join(lines)
