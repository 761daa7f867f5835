"""Repairs judged by a rerun: each proposed fix is put into the config, and the run trained again.

Comes in: records of a split. Goes out: for each fault that config can undo, the held-out loss after
the first, second and third prescription. It does not know whether the cause was right.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import torch

from benchmarks.diagnosis.jobs import Job, Split, build_training, config_of, job_of, jobs
from benchmarks.diagnosis.metrics import interval
from benchmarks.diagnosis.outcomes import Band, bands, outcome
from benchmarks.diagnosis.record import Record, read, record, write
from benchmarks.diagnosis.recording import _ready, file_of
from benchmarks.diagnosis.setups import VOCAB
from benchmarks.diagnosis.verdicts import verdict
from benchmarks.workers import print_progress
from pellucid import config
from pellucid.config import run_from_table, run_to_toml
from pellucid.errors import ConfigError
from pellucid.presets import find

_TRIES = 3
#: ln 96: how bad a loss can be counted as.
_GUESSING = math.log(VOCAB)


def repair_split(split: Split, folder: Path, processes: int) -> None:
    """Try the proposed fixes of every harmful fault that config can undo: of one seed each."""
    recorded = [job for job in jobs(split) if file_of(folder, job).exists()]
    records = [read(file_of(folder, job)) for job in recorded]
    healthy_bands = bands(records)
    to_repair = [record for record in records if _to_repair(record, healthy_bands)]
    open_ones = [
        job_of(record) for record in to_repair if not _file(folder, job_of(record)).exists()
    ]
    print_progress(f"repair: {len(to_repair)} runs, {len(to_repair) - len(open_ones)} are there")
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=spawn) as pool:
        running = [
            pool.submit(_mended, job, folder, _band(healthy_bands, job)) for job in open_ones
        ]
        for count, future in enumerate(as_completed(running), start=1):
            print_progress(f"repair {count} of {len(running)}: {future.result()}")


def _to_repair(record: Record, healthy_bands: Mapping[tuple[str, str], Band]) -> bool:
    job = job_of(record)
    # only the first seed of each level: a repair costs up to three trainings
    first = job.seed - job.level in (11, 101)
    if not record.get("repairable") or not first:
        return False
    is_config_fault = run_to_toml(config_of(job)) != run_to_toml(_healthy(job))
    return is_config_fault and outcome(record, healthy_bands) == "harmful"


def _healthy(job: Job) -> config.Run:
    return config_of(Job(job.split, job.arch, "healthy", job.variant, 0, job.seed))


def _band(healthy_bands: Mapping[tuple[str, str], Band], job: Job) -> Band:
    return healthy_bands[job.arch, job.variant]


def _file(folder: Path, job: Job) -> Path:
    return folder / "repairs" / f"{job.name}.json"


def _mended(job: Job, folder: Path, band: Band) -> str:
    """One run with each prescription in turn, until one helps."""
    torch.set_num_threads(1)
    original = read(file_of(folder, job))
    tries: list[dict[str, Any]] = []
    try:
        for assignments in proposed_assignments(original)[:_TRIES]:
            tries.append(_tried(job, folder, assignments) | {"assignments": list(assignments)})
            if tries[-1]["outcome"] <= band.worst:
                break
    except Exception:
        tries.append({"outcome": math.inf, "error": traceback.format_exc(limit=-2)})
    before, losses = original["outcome"], [round(trial["outcome"], 2) for trial in tries]
    head = {"job": original["job"], "before": before, "worst": band.worst, "healthy": band.mean}
    write(head | {"tries": tries}, _file(folder, job))
    return f"{job.name}: {before:.2f} -> {losses}, healthy {band.mean:.2f} to {band.worst:.2f}"


def proposed_assignments(record: Record) -> list[tuple[str, ...]]:
    """The assignments that the findings lead to, first the first finding's, each once."""
    from pellucid.diagnosis import propose_fixes

    run = config_of(job_of(record))
    fixes = [fix for finding in verdict(record).alarms for fix in propose_fixes(finding, run)]
    return list(dict.fromkeys(tuple(fix.assignments) for fix in fixes if fix.assignments))


def _tried(job: Job, folder: Path, assignments: Sequence[str]) -> dict[str, Any]:
    """The run again, with the assignments laid over its config."""
    import tomllib

    table = tomllib.loads(run_to_toml(config_of(job)))
    try:
        run = run_from_table(table, find, assignments)
    except ConfigError as error:
        return {"outcome": math.inf, "error": str(error)}
    repaired = record(build_training(job, _ready(folder.parent), run))
    header = {"name": job.name, "job": {**vars_of(job), "kind": "healthy"}}
    calm = not verdict(header | repaired).alarms
    return {"outcome": repaired["outcome"], "calm": calm}


def vars_of(job: Job) -> dict[str, Any]:
    """A job as plain values."""
    return {name: getattr(job, name) for name in job.__dataclass_fields__}


def repairs(folder: Path, healthy_bands: Mapping[tuple[str, str], Band]) -> dict[str, Any]:
    """How many were mended by the first prescription, and within three."""
    files = sorted(folder.glob("repairs/*/*.json"))
    repair_rows = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    if not repair_rows:
        return {}

    def mended(row: dict[str, Any], tries: int) -> bool:
        return any(t["outcome"] <= row["worst"] for t in row["tries"][:tries])

    def nearly(row: dict[str, Any], tries: int) -> bool:
        """Nine tenths of the way back to healthy runs, or all of it."""
        before = min(row["before"], _GUESSING)
        enough = max(row["worst"], row["healthy"] + 0.1 * (before - row["healthy"]))
        return any(t["outcome"] <= enough for t in row["tries"][:tries])

    first, three = (sum(mended(row, n) for row in repair_rows) for n in (1, _TRIES))
    calm = sum(
        any(t.get("calm") and t["outcome"] <= e["worst"] for t in e["tries"]) for e in repair_rows
    )
    return {
        "of": len(repair_rows),
        "first": first,
        "within_three": three,
        "and_calm": calm,
        "nearly_first": sum(nearly(row, 1) for row in repair_rows),
        "nearly_within_three": sum(nearly(row, _TRIES) for row in repair_rows),
        "first_interval": interval(first, len(repair_rows)),
        "within_three_interval": interval(three, len(repair_rows)),
        "not_mended": [
            [
                *(e["job"][key] for key in ("arch", "kind", "level")),
                [round(t["outcome"], 3) for t in e["tries"]],
                [round(e["healthy"], 3), round(e["worst"], 3)],
            ]
            for e in repair_rows
            if not mended(e, _TRIES)
        ],
    }
