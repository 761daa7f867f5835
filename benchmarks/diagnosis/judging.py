"""A split judged: every record's verdict against what is true, and what the free tools say of it.

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


def judged(record: Record, known: Mapping[tuple[str, str], Band], *, when: bool = True) -> Judged:
    """One record against what is true."""
    said, job = verdict(record, when=when), job_of(record)
    return Judged(
        job=job,
        codes=tuple(said.codes),
        notes=tuple(each.code for each in said.notes),
        top=None if said.top is None else said.top.code,
        confidence=0.0 if said.top is None else said.top.confidence,
        where="" if said.top is None else said.top.where,
        accepted=tuple(record.get("accepted", ())),
        place=record.get("place", ""),
        outcome=None if job.kind == HEALTHY else outcome(record, known),
        first_alarm=said.first_alarm,
        onset=record.get("onset", 0),
        diverged=diverged(record),
        updates=len(record["losses"]),
    )


def judge_split(
    folder: Path, *, frozen: Mapping[str, str] | None = None, save: bool = False
) -> dict[str, Any]:
    """Every number of a split."""
    records = records_in(folder)
    known = bands(records)
    # of a split that is still being recorded: what there is no healthy run for yet
    records = [each for each in records if (job_of(each).arch, job_of(each).variant) in known]
    runs = [judged(record, known) for record in records]
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
        "bands": {f"{a} {v}": asdict(band) for (a, v), band in known.items()},
        "ours": {name: metrics.measured(part) for name, part in parts.items() if part},
        "classes": metrics.by_class(runs),
        "healthy_alarms": [[r.job.name, list(r.codes)] for r in runs if r.healthy and r.codes],
        "losing": _losing(runs),
        "others": compared(records, known, folder),
        "repair": repairs(folder, known),
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
    train = sum(each["train"] - each["watching"] for each in seconds)
    return {
        "runs": len(seconds),
        "check_mean": sum(each["check"] for each in seconds) / len(seconds),
        "train_mean": train / len(seconds),
        "watching_share_at_full_rate": sum(each["watching"] for each in seconds) / train,
    }


def tell(results: Mapping[str, Any]) -> str:
    """The numbers for people."""
    lines: list[str] = []
    for part, found in results["ours"].items():
        lines.append(f"{part}: {found['runs']} runs, {found['outcomes']}")
        for key, value in found.items():
            if isinstance(value, dict) and "of" in value:
                lines.append(
                    f"  {key:<20} {value['share']:7.1%}  {value['count']}/{value['of']}"
                    f"  [{value['low']:.1%}, {value['high']:.1%}]"
                )
        lines.append(f"  macro-F1             {found['macro_f1']:.3f}")
        lines.append(f"  lead                 {found['lead']}")
        lines.append(f"  calibration error    {found['calibration']['expected_error']:.3f}")
    lines.append("class: runs, harmful/latent/harmless, detected, named, instead")
    for kind, row in results["classes"].items():
        counted = row["harmful"] + row["latent"]
        flag = " " if row["named"] == counted else "*"
        lines.append(
            f"{flag} {kind:<32} {row['runs']:3}  {row['harmful']}/{row['latent']}/{row['harmless']}"
            f"  {row['detected']}/{counted}  {row['named']}/{counted}  {row['instead'] or ''}"
        )
    lines.append("false alarms:")
    lines += [f"  {name}: {', '.join(codes)}" for name, codes in results["healthy_alarms"]]
    lines.append("others: " + json.dumps(results["others"], indent=1))
    lines.append("repair: " + json.dumps(results["repair"], indent=1))
    lines.append("cost: " + json.dumps(results["cost"]))
    return "\n".join(lines)
