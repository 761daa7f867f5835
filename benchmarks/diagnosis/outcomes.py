"""What a fault did: harmful, latent or harmless, by the loss of the true task on held-out rows.

Comes in: records. Goes out: a word for each, and the healthy band it was compared with. It does not
know the diagnoses.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from benchmarks.diagnosis.jobs import HEALTHY, job_of
from benchmarks.diagnosis.record import Record

Outcome = Literal["harmful", "latent", "harmless"]
_SDS = 3.0
#: Two healthy runs may agree by chance; no band is narrower.
_LEAST_SD = 0.01


@dataclass(frozen=True, slots=True)
class Band:
    """The held-out losses of healthy runs."""

    mean: float
    sd: float
    count: int

    @property
    def worst(self) -> float:
        """Beyond it, a run is worse than healthy ones."""
        return self.mean + _SDS * self.sd


def bands(records: Iterable[Record]) -> dict[tuple[str, str], Band]:
    """The band of each architecture and variant."""
    losses: dict[tuple[str, str], list[float]] = {}
    for record in records:
        job = job_of(record)
        if job.kind == HEALTHY and math.isfinite(record["outcome"]):
            losses.setdefault((job.arch, job.variant), []).append(record["outcome"])
    return {
        key: Band(
            statistics.fmean(values),
            max(_LEAST_SD, statistics.stdev(values) if len(values) > 1 else 0.0),
            len(values),
        )
        for key, values in losses.items()
    }


def outcome(record: Record, bands: Mapping[tuple[str, str], Band]) -> Outcome:
    """What the fault of a record did."""
    job, loss = job_of(record), record["outcome"]
    if not math.isfinite(loss) or loss > bands[job.arch, job.variant].worst:
        return "harmful"
    return "latent" if record["kind"] == "invariant" else "harmless"
