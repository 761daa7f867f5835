"""The diagnosis of each record, at the end and during the run.

Comes in: records. Goes out: a verdict for each. It knows neither outcomes nor right answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.diagnosis.record import Record, declared, history
from pellucid.diagnosis import SEVERITIES, Finding, History

_ALARMING = SEVERITIES.index("warn")
#: No answer, and said so.
ABSTAINED = "UNK001"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The findings that alarm, the first one first; the notes; and when there was a first alarm.

    `first_alarm` is the update after which it was known: 0 is before training. None is never.
    """

    alarms: tuple[Finding, ...]
    notes: tuple[Finding, ...]
    first_alarm: int | None = None

    @property
    def codes(self) -> list[str]:
        """The codes of the alarms, each once."""
        return list(dict.fromkeys(finding.code for finding in self.alarms))

    @property
    def top(self) -> Finding | None:
        """The first alarm that names a cause; None if there is no alarm, or it abstains."""
        first = self.alarms[0] if self.alarms else None
        return None if first is None or first.code == ABSTAINED else first


def verdict(record: Record, *, with_time: bool = False) -> Verdict:
    """The diagnosis at the end; with `with_time`, also the time of the first alarm."""
    findings = _diagnosed(record, history(record))
    alarms = tuple(finding for finding in findings if alarming(finding))
    notes = tuple(finding for finding in findings if not alarming(finding))
    first = _first_alarm(record) if with_time and alarms else None
    return Verdict(alarms, notes, first)


def alarming(finding: Finding) -> bool:
    """Whether it is more than a note."""
    return SEVERITIES.index(finding.severity) >= _ALARMING


def _diagnosed(record: Record, history_so_far: History) -> list[Finding]:
    from pellucid.diagnosis import diagnose

    return list(diagnose(history_so_far, declared=declared(record), ignore=tuple(record["ignore"])))


def _first_alarm(record: Record) -> int | None:
    """Signs are read one update late: a measurement of one update is known after the next."""
    steps = sorted(
        {step for step, readings in record["told"] if step is not None and len(readings) > 1}
    )
    for step in (0, *steps):
        if any(
            alarming(finding) for finding in _diagnosed(record, history(record, last_update=step))
        ):
            return step + 1 if step else 0
    return len(record["losses"])


def diverged(record: Record, window: int = 128, sds: float = 6.0, least: int = 20) -> int:
    """The first update of the fault whose loss is far above those before it; else the last one.

    With fewer than `window` losses, the mean and the deviation are of those there are.
    """
    losses = [loss for _, loss in record["losses"]]
    onset = record.get("onset", 0)
    for index in range(least, len(losses)):
        if index >= onset and is_far_above(losses, index, window, sds):
            return index + 1
    return len(losses)


def is_far_above(values: Sequence[float], index: int, window: int, sds: float) -> bool:
    """Whether a value is so many standard deviations above the mean of those before it."""
    value: Any = values[index]
    if not math.isfinite(value):
        return True
    past = [v for v in values[max(0, index - window) : index] if math.isfinite(v)]
    mean = sum(past) / len(past)
    sd = math.sqrt(sum((v - mean) ** 2 for v in past) / max(1, len(past) - 1))
    return value > mean + sds * sd
