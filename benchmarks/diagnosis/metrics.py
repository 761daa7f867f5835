"""Numbers from verdicts and outcomes: alarms, recall, causes, places, lead, confidence.

Comes in: judged runs. Goes out: plain values. It does not know how anything was judged.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.diagnosis.jobs import HEALTHY, Job
from benchmarks.diagnosis.outcomes import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A run, the answer about it, and the truth. `outcome` is None of healthy runs."""

    job: Job
    codes: tuple[str, ...]
    notes: tuple[str, ...]
    top: str | None
    confidence: float
    location: str
    accepted: tuple[str, ...] = ()
    place: str = ""
    outcome: Outcome | None = None
    first_alarm: int | None = None
    onset: int = 0
    diverged: int = 0
    updates: int = 0

    @property
    def healthy(self) -> bool:
        return self.job.kind == HEALTHY

    @property
    def faulty(self) -> bool:
        """Whether it counts as a fault: harmful, or an invariant is broken."""
        return self.outcome in ("harmful", "latent")

    @property
    def right(self) -> bool:
        """Whether the first answer is a right one."""
        return self.top in self.accepted


def measured(runs: Sequence[Judged]) -> dict[str, Any]:
    """Every number of a set of runs."""
    healthy = [run for run in runs if run.healthy]
    faulty = [run for run in runs if run.faulty]
    harmless = [run for run in runs if run.outcome == "harmless"]
    harmful = [run for run in faulty if run.outcome == "harmful"]
    alarmed = [run for run in faulty if run.codes]
    return {
        "runs": len(runs),
        "false_alarms": _share(healthy, lambda run: bool(run.codes)),
        "false_alarms_per_1e5_updates": 1e5
        * sum(bool(run.codes) for run in healthy)
        / max(1, sum(run.updates for run in healthy)),
        "alarms_on_harmless": _share(harmless, lambda run: bool(run.codes)),
        "recall": _share(faulty, lambda run: bool(run.codes)),
        "recall_harmful": _share(harmful, lambda run: bool(run.codes)),
        "top_1": _share(faulty, lambda run: run.right),
        "top_3": _share(faulty, lambda run: bool(set(run.codes[:3]) & set(run.accepted))),
        "top_1_of_detected": _share(alarmed, lambda run: run.right),
        "abstained": _share(faulty, lambda run: bool(run.codes) and run.top is None),
        "macro_f1": macro_f1(runs),
        "place": _share(
            [run for run in faulty if run.place and run.right],
            lambda run: bool(re.search(run.place, run.location)),
        ),
        "lead": lead(alarmed),
        "calibration": calibration(runs),
        "outcomes": dict(Counter(str(run.outcome) for run in runs if not run.healthy)),
    }


def by_class(runs: Iterable[Judged]) -> dict[str, dict[str, Any]]:
    """For each class: how many count, are detected and named, and the wrong answers."""
    runs_by_class: dict[str, list[Judged]] = {}
    for run in runs:
        if not run.healthy:
            runs_by_class.setdefault(run.job.kind, []).append(run)
    table: dict[str, dict[str, Any]] = {}
    for kind, class_runs in sorted(runs_by_class.items()):
        faulty_runs = [run for run in class_runs if run.faulty]
        wrong = Counter(_answer_of(run) for run in faulty_runs if not run.right)
        table[kind] = {
            "runs": len(class_runs),
            "harmful": sum(run.outcome == "harmful" for run in class_runs),
            "latent": sum(run.outcome == "latent" for run in class_runs),
            "harmless": sum(run.outcome == "harmless" for run in class_runs),
            "detected": sum(bool(run.codes) for run in faulty_runs),
            "named": sum(run.right for run in faulty_runs),
            "named_in_3": sum(bool(set(run.codes[:3]) & set(run.accepted)) for run in faulty_runs),
            "instead": dict(wrong.most_common(4)),
        }
    return table


def _answer_of(run: Judged) -> str:
    return run.top or ("not known" if run.codes else "silent")


def macro_f1(runs: Sequence[Judged]) -> float:
    """The mean over classes of F1, an answer being right if it is an accepted one.

    A run is a false positive of a class where its answer is one of that class's, and none of its
    own.
    """
    accepted = {run.job.kind: set(run.accepted) for run in runs if run.faulty}
    scores: list[float] = []
    for kind, codes in accepted.items():
        class_runs = [run for run in runs if run.faulty and run.job.kind == kind]
        hits = sum(run.right for run in class_runs)
        others = [r for r in runs if (r.healthy or r.faulty) and r.job.kind != kind]
        false = sum(run.top in codes and not run.right for run in others)
        scores.append(2 * hits / (len(class_runs) + hits + false))
    return statistics.fmean(scores) if scores else math.nan


def lead(runs: Sequence[Judged]) -> dict[str, float]:
    """How long before the loss shows it there is an alarm; and the share of what time there is."""
    alarmed_runs = [run for run in runs if run.first_alarm is not None]
    if not alarmed_runs:
        return {}
    early = sorted(float(run.diverged - (run.first_alarm or 0)) for run in alarmed_runs)
    shares = [
        max(
            -1.0, (run.diverged - max(run.first_alarm or 0, run.onset)) / (run.diverged - run.onset)
        )
        for run in alarmed_runs
        if run.diverged > run.onset
    ]
    after = [max(0, (run.first_alarm or 0) - run.onset) for run in alarmed_runs]
    return {
        "runs": len(alarmed_runs),
        "updates_median": statistics.median(early),
        "updates_10th": early[len(early) // 10],
        "share_median": statistics.median(shares),
        "updates_to_detect_median": statistics.median(after),
    }


def calibration(runs: Sequence[Judged], bins: int = 5) -> dict[str, Any]:
    """Whether of the answers that are given with p, a share of p is right."""
    answered = [run for run in runs if run.top is not None and run.outcome != "harmless"]
    rows: list[dict[str, float]] = []
    for number in range(bins):
        low, high = number / bins, (number + 1) / bins
        runs_of_bin = [
            r
            for r in answered
            if low <= r.confidence < high or (number == bins - 1 and r.confidence == 1)
        ]
        if runs_of_bin:
            mean = statistics.fmean(run.confidence for run in runs_of_bin)
            right = statistics.fmean(float(run.right) for run in runs_of_bin)
            rows.append({"said": mean, "right": right, "runs": len(runs_of_bin)})
    total = sum(row["runs"] for row in rows) or 1
    gap = sum(row["runs"] * abs(row["said"] - row["right"]) for row in rows) / total
    return {"bins": rows, "expected_error": gap}


def _share(runs: Sequence[Judged], test: Callable[[Judged], bool]) -> dict[str, float]:
    """How many of how many, and the interval that holds the true share with 95%."""
    count, total = sum(map(test, runs)), len(runs)
    low, high = interval(count, total)
    share = count / total if total else math.nan
    return {"count": count, "of": total, "share": share, "low": low, "high": high}


def interval(count: int, total: int, level: float = 0.95) -> tuple[float, float]:
    """The exact bounds for a share: of 0 in 300, the upper one-sided bound is 1.0%.

    Source:
        Clopper and Pearson 1934. One-sided where the count is 0 or all.
    """
    if not total:
        return math.nan, math.nan
    tail = (1 - level) if count in (0, total) else (1 - level) / 2
    low = (
        0.0
        if count == 0
        else _solved(lambda p: 1 - _probability_of_at_most(count - 1, total, p), tail)
    )
    high = (
        1.0
        if count == total
        else _solved(lambda p: 1 - _probability_of_at_most(count, total, p), 1 - tail)
    )
    return low, high


def _solved(rising: Callable[[float], float], value: float) -> float:
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < value else (low, middle)
    return (low + high) / 2


def _probability_of_at_most(count: int, total: int, p: float) -> float:
    """The probability of at most so many hits."""
    if p in (0.0, 1.0):
        return 1.0 if p == 0.0 or count >= total else 0.0
    logs = [
        math.lgamma(total + 1)
        - math.lgamma(k + 1)
        - math.lgamma(total - k + 1)
        + k * math.log(p)
        + (total - k) * math.log1p(-p)
        for k in range(count + 1)
    ]
    return min(1.0, sum(math.exp(log_probability) for log_probability in logs))
