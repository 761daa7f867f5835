"""The numbers of a split, from its records: detected, named, false alarms, and every miss.

Comes in: records. Goes out: plain values, and a text for people. It trains nothing.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from benchmarks.diagnosis.elsewhere.answers import RIGHT
from benchmarks.diagnosis.elsewhere.cases import Case
from benchmarks.diagnosis.elsewhere.running import Record
from benchmarks.diagnosis.elsewhere.score import MARGIN, harmed
from benchmarks.diagnosis.metrics import calibration, interval
from pellucid.diagnosis import SEVERITIES

_ALARMING = SEVERITIES.index("warn")
#: Said when something is wrong and the cause is not known.
UNKNOWN = "UNK001"


#: Said when the records cannot tell a fault from a sound training: neither right nor wrong.
UNDECIDED = "UNK002"


#: The results that are listed run by run.
_LISTS = (
    "missed",
    "could not tell",
    "could not tell, healthy",
    "named wrongly",
    "false alarms",
    "alarms at odd runs that ended worse",
    "alarms at faults without harm",
)
#: A fault that did harm; one that did none; a healthy training; an odd one that ended worse than
#: its twin, so that it is open whether a warning would be wrong.
Outcome = Literal["harmed", "harmless", "healthy", "odd and worse"]


@dataclass(frozen=True)
class Judged:
    """A run, its outcome, and its findings."""

    case: Case
    record: Record
    outcome: Outcome

    @property
    def alarms(self) -> list[dict[str, Any]]:
        """The findings that are more than a note, the first one first."""
        return [f for f in self.record["findings"] if SEVERITIES.index(f["severity"]) >= _ALARMING]

    @property
    def named_cause(self) -> dict[str, Any] | None:
        """The first alarm that names a cause."""
        return next((alarm for alarm in self.alarms if alarm["code"] != UNKNOWN), None)

    @property
    def top(self) -> str | None:
        """Its code."""
        return self.named_cause["code"] if self.named_cause else None

    @property
    def abstains(self) -> bool:
        """Whether the only answer is what would tell a fault from a sound training."""
        codes = [finding["code"] for finding in self.record["findings"]]
        return not self.alarms and UNDECIDED in codes

    @property
    def confidence(self) -> float:
        """How sure it is."""
        return self.named_cause["confidence"] if self.named_cause else 0.0

    @property
    def right(self) -> bool:
        """Whether the first cause is a right one."""
        return self.top in RIGHT.get(self.case.what, ())


def judge(records: Sequence[Record]) -> list[Judged]:
    """The runs that ended without an error, each compared with its healthy twin."""
    records_by_case = {
        Case(**record["case"]): record for record in records if "error" not in record
    }
    judged: list[Judged] = []
    for case, record in records_by_case.items():
        twin = records_by_case.get(case.twin)
        if twin is None:
            continue
        worse = harmed(record["score"], twin["score"])
        if case.what in RIGHT:
            outcome: Outcome = "harmed" if worse else "harmless"
        else:
            outcome = "odd and worse" if worse else "healthy"
        judged.append(Judged(case, record, outcome))
    return judged


def measure(runs: Sequence[Judged]) -> dict[str, Any]:
    """The shares of a set of runs, each with its interval.

    "I could not tell" counts as missed, and in the shares of answered runs it is left out.
    """
    hurt, healthy = _with_outcome(runs, "harmed"), _with_outcome(runs, "healthy")
    answered = [run for run in hurt if not run.abstains]
    return {
        "detected": _share(hurt, lambda run: bool(run.alarms)),
        "first cause right": _share(hurt, lambda run: run.right),
        "right, if a cause was named": _share(
            [run for run in hurt if run.top], lambda run: run.right
        ),
        "could not tell": _share(hurt, lambda run: run.abstains),
        "detected, where it could tell": _share(answered, lambda run: bool(run.alarms)),
        "first cause right, where it could tell": _share(answered, lambda run: run.right),
        "false alarms": _share(healthy, lambda run: bool(run.alarms)),
        "could not tell, healthy": _share(healthy, lambda run: run.abstains),
        "alarms at odd runs that ended worse": _share(
            _with_outcome(runs, "odd and worse"), lambda run: bool(run.alarms)
        ),
        "alarms at faults without harm": _share(
            _with_outcome(runs, "harmless"), lambda run: bool(run.alarms)
        ),
    }


def _with_outcome(runs: Sequence[Judged], outcome: Outcome) -> list[Judged]:
    return [run for run in runs if run.outcome == outcome]


def results(records: Sequence[Record]) -> dict[str, Any]:
    """All numbers of a split at one rate."""
    runs = judge(records)
    cost = [
        r["watching_seconds"] / max(r["training_seconds"], 1e-9) for r in records if "score" in r
    ]
    hurt, alarmed = _with_outcome(runs, "harmed"), [run for run in runs if run.alarms]
    return {
        "runs": len(records),
        "outcomes": dict(Counter(run.outcome for run in runs)),
        "margin": MARGIN,
        "all": measure(runs),
        "calibration": calibration([run for run in runs if run.outcome != "odd and worse"]),
        "by style": _measures_by(runs, lambda case: case.style),
        "by family": _measures_by(runs, lambda case: case.family),
        "by fault": _measures_by(hurt, lambda case: case.what),
        "missed": [_describe_run(run) for run in hurt if not run.alarms and not run.abstains],
        "could not tell": [_describe_run(run) for run in hurt if run.abstains],
        "could not tell, healthy": [
            _describe_run(run) for run in _with_outcome(runs, "healthy") if run.abstains
        ],
        "named wrongly": [
            _describe_run(run) for run in _with_outcome(alarmed, "harmed") if not run.right
        ],
        "false alarms": [_describe_run(run) for run in _with_outcome(alarmed, "healthy")],
        "alarms at odd runs that ended worse": [
            _describe_run(r) for r in _with_outcome(alarmed, "odd and worse")
        ],
        "alarms at faults without harm": [
            _describe_run(run) for run in _with_outcome(alarmed, "harmless")
        ],
        "errors": [_error(record) for record in records if "error" in record],
        "share of time spent watching": statistics.median(cost) if cost else math.nan,
        "cpu hours": sum(record["cpu_seconds"] for record in records) / 3600,
    }


def _measures_by(runs: Sequence[Judged], key: Callable[[Case], str]) -> dict[str, Any]:
    names = sorted({key(run.case) for run in runs})
    return {name: measure([run for run in runs if key(run.case) == name]) for name in names}


def _share(runs: Sequence[Judged], test: Callable[[Judged], bool]) -> dict[str, Any]:
    count, total = sum(map(test, runs)), len(runs)
    low, high = interval(count, total)
    return {"count": count, "of": total, "low": low, "high": high}


def _describe_run(run: Judged) -> dict[str, Any]:
    return {
        "run": run.case.name,
        "right": list(RIGHT.get(run.case.what, ())),
        "said": [f"{alarm['code']}: {alarm['message']}" for alarm in run.alarms],
        "notes": [f["code"] for f in run.record["findings"] if f not in run.alarms],
        "score": f"{run.record['score']:.3f}",  # it may be infinite, which JSON cannot say
    }


def _error(record: Record) -> list[str]:
    """The run and the last line of its error; the record has all of it."""
    return [Case(**record["case"]).name, record["error"].strip().splitlines()[-1]]


def format_results(measures: dict[str, Any]) -> str:
    """The numbers for people."""
    lines = [
        f"{measures['runs']} runs: {measures['outcomes']}, {len(measures['errors'])} with an "
        "error; "
        f"{measures['cpu hours']:.2f} CPU hours; watching took a median of "
        f"{measures['share of time spent watching']:.1%}",
        *_rows({"all": measures["all"]}),
        f"  calibration: {measures['calibration']}",
    ]
    for part in ("by style", "by family", "by fault"):
        lines += [f"\n{part}:", *_rows(measures[part])]
    for part in _LISTS:
        lines.append(f"\n{part}: {len(measures[part])}")
        for run in measures[part]:
            lines.append(f"  {run['run']} (score {run['score']})")
            lines += [f"    right: {', '.join(run['right'])}"] if run["right"] else []
            lines += [f"    said {alarm}" for alarm in run["said"]]
            lines += [f"    notes: {', '.join(run['notes'])}"] if run["notes"] else []
    lines += [f"\nerror in {name}: {error}" for name, error in measures["errors"]]
    return "\n".join(lines)


def _rows(parts: dict[str, dict[str, Any]]) -> list[str]:
    lines: list[str] = []
    for name, shares in parts.items():
        cells = [
            f"{key} {share['count']}/{share['of']} [{share['low']:.0%}, {share['high']:.0%}]"
            for key, share in shares.items()
            if share["of"]
        ]
        lines.append(f"  {name}: {'; '.join(cells)}")
    return lines
