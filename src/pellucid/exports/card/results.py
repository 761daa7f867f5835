"""Losses with intervals, vital signs, and time, from the record of a run."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from pellucid.display.metric_labels import in_order
from pellucid.display.numbers import duration, energy
from pellucid.display.vital_rows import rows_of
from pellucid.errors import PellucidError
from pellucid.exports.card.recipe import table
from pellucid.printable import plural
from pellucid.saved_runs.folder import RunFolder
from pellucid.saved_runs.load import read_plan
from pellucid.training import Event, events

#: So many standard errors to each side hold 95% of a normal distribution.
_WIDTH = 1.96


def results_section(happened: Sequence[Event], step: int) -> str:
    """The losses of the weights, with 95% intervals where the record has them.

    Args:
        happened: the record of the run.
        step: the update after which the weights were saved.
    """
    rows = [*_held_out(happened, step), *_training(happened, step)]
    if not rows:
        return "## Results\n\nThe run recorded no loss up to these weights."
    note = (
        "An interval holds the mean with 95% confidence. For held-out data it is from the spread "
        "between parts of the data, for training from the spread between updates. Neither tells "
        "how much other seeds differ."
    )
    return f"## Results\n\n{table(('measure', 'value', 'over'), rows)}\n\n{note}"


def _held_out(happened: Sequence[Event], step: int) -> list[tuple[str, str, str]]:
    evaluated = [e for e in happened if isinstance(e, events.Evaluated) and e.step <= step]
    if not evaluated:
        return []
    latest = evaluated[-1]
    sample = f"{latest.over:,} {latest.unit}, after {latest.step:,} updates"
    error = latest.standard_error
    rows = [("held-out loss, nats", _with_interval(latest.loss_nats, error), sample)]
    for measure, value in in_order(latest.measures):
        unit = f", {measure.unit}" if measure.unit else ""
        rows.append((f"held-out {measure.title}{unit}", f"{value:.4g}", sample))
    return rows


def _training(happened: Sequence[Event], step: int) -> list[tuple[str, str, str]]:
    logged = [e for e in happened if isinstance(e, events.Logged) and e.step <= step]
    if not logged:
        return []
    losses = [loss for loss in logged[-1].losses if math.isfinite(loss)]
    if not losses:
        return []
    error = None
    if len(losses) > 1:
        error = statistics.stdev(losses) / math.sqrt(len(losses))
    mean = _with_interval(statistics.fmean(losses), error)
    return [("training loss, nats", mean, f"the last {len(losses)} updates")]


def _with_interval(value: float, error: float | None) -> str:
    if error is None:
        return f"{value:.4g} (no interval was recorded)"
    return f"{value:.4g} ± {_WIDTH * error:.2g}"


def vitals_section(happened: Sequence[Event], step: int) -> str:
    """The vital signs of the last reading up to these weights.

    Args:
        happened: the record of the run.
        step: the update after which the weights were saved.
    """
    readings = [e for e in happened if isinstance(e, events.Vitals) and e.step <= step]
    if not readings:
        return "## Vital signs\n\nThe run was not watched."
    rows = [
        (row.name, row.word or "not measured", row.sign, f"{row.value:.3g}" if row.word else "")
        for row in rows_of(readings[-1])
    ]
    head = ("equation", "word", "deciding sign", "value")
    return f"## Vital signs\n\nAfter update {readings[-1].step:,}:\n\n{table(head, rows)}"


def time_section(happened: Sequence[Event], folder: RunFolder) -> str:
    """How long the training took, on what, and its energy if the machine counts it.

    Args:
        happened: the record of the run.
        folder: has the plan.
    """
    finished = [e for e in happened if isinstance(e, events.Finished)]
    resumed = any(isinstance(e, events.Resumed) for e in happened)
    if not finished:
        lines = ["The run has not finished, so it recorded no time."]
    else:
        resume_note = " since it was last resumed" if resumed else ""
        lines = [f"Training took {duration(finished[-1].seconds)}{resume_note}."]
    try:
        plan = read_plan(folder)
    except PellucidError:
        plan = None
    if plan is not None:
        count = f", {plan.threads} {plural(plan.threads, 'thread')}"
        threads = count if plan.device == "cpu" else ""
        lines.append(
            f"It ran on {plan.device} ({plan.device_name}{threads}) in {plan.precision}, with "
            f"torch {plan.torch_version}."
        )
    joules = finished[-1].joules if finished else None
    if joules is None:
        lines.append("The machine reported no energy.")
    else:
        lines.append(f"Meanwhile the machine used {energy(joules)}, other programs included.")
    return f"## Time\n\n{' '.join(lines)}"
