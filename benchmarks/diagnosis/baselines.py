"""Free rules on the same records as pellucid: published thresholds, and the same with others.

Comes in: records. Goes out: for each rule its false alarms and its recall. Tools of other people
and a learned classifier are run by `peers` and `learned`, and join the table here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.diagnosis.jobs import HEALTHY, job_of
from benchmarks.diagnosis.metrics import interval
from benchmarks.diagnosis.outcomes import Band, outcome
from benchmarks.diagnosis.record import Record
from benchmarks.diagnosis.verdicts import is_far_above

Rule = Callable[[Record], bool]
#: Values before a deviation is asked for, where windows are not waited for to be full.
_LEAST = 20


def _spikes(series: str, sds: float, window: int, least: int) -> Rule:
    """A value so many standard deviations above the mean of those before it."""

    def rule(record: Record) -> bool:
        values = [value for _, value in record[series]]
        return any(is_far_above(values, index, window, sds) for index in range(least, len(values)))

    return rule


def _either(*rules: Rule) -> Rule:
    return lambda record: any(rule(record) for rule in rules)


def _not_finite(record: Record) -> bool:
    return not all(math.isfinite(v) for s in ("losses", "norms") for _, v in record[s])


def _places(record: Record, id: str) -> list[list[float]]:
    """A measurement's numbers at its places, look by look."""
    values_by_place: list[list[float]] = []
    for step, readings in record["told"]:
        if step is not None:
            values_by_place += [values for name, _, values in readings if name == id]
    return values_by_place


def _auto_trainer(record: Record) -> bool:
    """AutoTrainer's numbers: vanishing, exploding, dying units; judged at every look."""
    by_depth = _places(record, "gradient.by_depth")
    vanish = any(v[0] < 1e-4 and v[-1] > 0 and v[0] / v[-1] < 1e-3 for v in by_depth if v)
    explode = any(max(v, default=0.0) > 70 or not all(map(math.isfinite, v)) for v in by_depth)
    dying = any(max(v, default=0.0) > 0.7 for v in _places(record, "units.dead"))
    return vanish or explode or dying or _not_finite(record)


def _nothing_learnt(record: Record) -> bool:
    """The last twenty losses are no lower than guessing: what people look for by eye."""
    losses = [value for _, value in record["losses"]]
    guessing = record["guessing"] or math.log(96)
    return len(losses) >= 100 and sum(losses[-20:]) / 20 > guessing - 0.05


RULES: dict[str, Rule] = {
    "a value that is not finite": _not_finite,
    "not finite, or nothing learnt": _either(_not_finite, _nothing_learnt),
    "OLMo: 6 sd, window 128, loss and norm": _either(
        _spikes("losses", 6, 128, 128), _spikes("norms", 6, 128, 128)
    ),
    "OLMo's rule, window not waited for": _either(
        _spikes("losses", 6, 128, _LEAST), _spikes("norms", 6, 128, _LEAST)
    ),
    "OLMo's rule, window 32": _either(
        _spikes("losses", 6, 32, _LEAST), _spikes("norms", 6, 32, _LEAST)
    ),
    "OLMo's rule, window 32, 4 sd": _either(
        _spikes("losses", 4, 32, _LEAST), _spikes("norms", 4, 32, _LEAST)
    ),
    "AutoTrainer's numbers": _auto_trainer,
}


def compared(
    records: Sequence[Record],
    healthy_bands: Mapping[tuple[str, str], Band],
    folder: Path | None = None,
) -> dict[str, Any]:
    """False alarms and recall of each rule, and of what `peers` and `learned` left in `folder`."""
    table = {
        name: _row(
            records, healthy_bands, {r["name"]: ["alarm"] if rule(r) else [] for r in records}
        )
        for name, rule in RULES.items()
    }
    for file in ("peers.json", "learned.json"):
        if folder is not None and (folder / file).is_file():
            saved = json.loads((folder / file).read_text(encoding="utf-8"))
            for name, alarms in saved["alarms"].items():
                table[name] = _row(records, healthy_bands, alarms) | saved.get("more", {}).get(
                    name, {}
                )
    return table


def _row(
    records: Sequence[Record],
    healthy_bands: Mapping[tuple[str, str], Band],
    alarms: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    """The counts for one tool; what it was not run on is left out of both."""
    run_records = [record for record in records if record["name"] in alarms]
    healthy = [r for r in run_records if job_of(r).kind == HEALTHY]
    sick = [r for r in run_records if job_of(r).kind != HEALTHY]
    alarmed = {"harmful": [], "latent": [], "harmless": []}  # type: dict[str, list[bool]]
    for record in sick:
        alarmed[outcome(record, healthy_bands)].append(bool(alarms[record["name"]]))
    false = sum(bool(alarms[r["name"]]) for r in healthy)
    counted_faults = alarmed["harmful"] + alarmed["latent"]
    return {
        "false_alarms": [false, len(healthy)],
        "false_alarms_interval": interval(false, len(healthy)),
        "harmful": [sum(alarmed["harmful"]), len(alarmed["harmful"])],
        "latent": [sum(alarmed["latent"]), len(alarmed["latent"])],
        "recall": [sum(counted_faults), len(counted_faults)],
    }
