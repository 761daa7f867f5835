"""Sudden changes of the loss: falls, jumps, over-fitting, a resumed training that lost state."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from pellucid.diagnosis.finding import Finding, describe, limit
from pellucid.diagnosis.history.history import Points
from pellucid.diagnosis.logs.statistics import Log, noise, values


def of_overfitting(log: Log) -> list[Finding]:
    """Over-fitting, for any loss that has a held-out twin."""
    return list(_overfitted(log))


def of_jumps(log: Log) -> list[Finding]:
    """Sudden changes of a loss with little noise, in no order."""
    checks = (_fall, _jumps, _swings, _resumed, _worse_held_out)
    return [finding for check in checks for finding in check(log)]


def _fall(log: Log) -> Iterable[Finding]:
    """A loss that was steady, and fell by more than half from one row to the next, for good."""
    losses, numbers = log.losses, values(log.losses)
    width = round(limit("LOG011", "points"))
    for i in range(2 * width, len(numbers) - width):
        end = statistics.median(numbers[i : i + width])
        level = statistics.median(numbers[i - width : i])
        if end > limit("LOG011", "share") * level or level - end < limit("LOG011", "nats"):
            continue
        if statistics.median(numbers[i - 2 * width : i - width]) - level > 0.1 * (level - end):
            continue  # it was falling before
        span = losses[i + width - 1][0] - losses[i - width][0]
        usual_gap = statistics.median(b - a for (a, _), (b, _) in pairwise(losses))
        if span > 2 * (2 * width - 1) * usual_gap:
            continue  # rows are missing there: it may have fallen gradually
        yield describe("LOG011", level=level, end=end, ratio=end / level, step=losses[i][0])
        return


def _swings(log: Log) -> Iterable[Finding]:
    """A loss that is many times larger or smaller in the next row, again and again."""
    numbers = values(log.losses)
    if len(numbers) < limit("LOG003", "rows") or min(numbers) <= 0:
        return
    ratio = math.exp(statistics.median(abs(math.log(b / a)) for a, b in pairwise(numbers)))
    if ratio > limit("LOG003", "fold"):
        yield describe("LOG003/swings", ratio=ratio, n=len(numbers))


def _jumps(log: Log) -> Iterable[Finding]:
    """Rows far above those before them, until the loss comes back; a long jump counts once.

    A jump that has not come back by the last row is the end of the curve, which `curves` reports.
    """
    losses, numbers = log.losses, values(log.losses)
    window, least = round(limit("LOG003", "window")), 20
    high: list[int] = []
    for i in range(least, len(numbers)):
        preceding = numbers[max(0, i - window) : i]
        level = statistics.median(preceding[-least:])
        rise = max(limit("LOG003", "share") * level, limit("LOG003", "sd") * noise(preceding))
        if numbers[i] > level + rise and min(numbers[i + 1 :], default=math.inf) <= level + rise:
            high.append(i)
    steps = [losses[i][0] for n, i in enumerate(high) if n == 0 or i - high[n - 1] > 5]
    if not steps:
        return
    cause, ratio = _why_jumps(log, steps[0])
    yield describe(
        "LOG003",
        jumps="One jump" if len(steps) == 1 else f"{len(steps)} jumps",
        n=len(steps),
        rows=len(numbers),
        steps=", ".join(map(str, steps[:6])) + (", ..." if len(steps) > 6 else ""),
        ratio=ratio,
        cause=cause,
        step=steps[0],
    )


def _why_jumps(log: Log, step: int) -> tuple[str, float]:
    """The name of the cause, and the gradient norm relative to its median before."""
    norms = [(s, v) for s, v in log.grad_norm if math.isfinite(v)]
    norms_before = [v for s, v in norms if s < step][-20:]
    jump_norms = [v for s, v in norms if step - 2 <= s <= step]
    if len(norms_before) < 5 or not jump_norms:
        return "unknown", 0.0
    return "with norms", max(jump_norms) / max(statistics.median(norms_before), 1e-30)


def _overfitted(log: Log) -> Iterable[Finding]:
    """A held-out loss that rises for good while the training loss falls."""
    curve = [(step, value) for step, value in log.held_out if math.isfinite(value)]
    if len(curve) < limit("LOG010", "evaluations"):
        return
    step, lowest = min(curve, key=lambda point: point[1])
    losses_after = [value for s, value in curve if s > step]
    least = max(limit("LOG010", "nats"), limit("LOG010", "share") * lowest)
    if len(losses_after) < 2 or min(losses_after[-2:]) - lowest <= least:
        return
    trained = [value for s, value in log.losses if s <= step][-5:]
    latest = values(log.losses)[-5:]
    if not trained or not latest or statistics.median(latest) > statistics.median(trained):
        return
    end = losses_after[-1]
    yield describe("LOG010", lowest=lowest, end=end, rise=end - lowest, step=step)


def _worse_held_out(log: Log) -> Iterable[Finding]:
    """A held-out loss far above its lowest, although the training loss did not fall since.

    The texts are the same each time, so batches do not explain it; of a model that learns its texts
    by heart the training loss falls. Without a training loss, the last evaluation has to jump.
    """
    curve = [(step, value) for step, value in log.held_out if math.isfinite(value)]
    lows = [*curve[:-1], *((math.inf, value) for value in values(log.lowest_held_out))]
    if not curve or not lows:
        return
    step, lowest = min(lows, key=lambda point: point[1])
    end, share = curve[-1][1], limit("LOG002", "held_out")
    least = max(limit("LOG002", "nats"), share * lowest)
    latest = values(log.losses)[-5:]
    trained = [value for s, value in log.losses if s <= step][-5:] if step < math.inf else []
    if trained:
        is_learning = statistics.median(latest) < statistics.median(trained)
    elif latest:  # how long ago the lowest one was is not known: it has to be far below
        is_learning = statistics.median(latest) < lowest + least
    else:
        is_learning = len(curve) < 2 or end <= (1 + share) * curve[-2][1]
    if lowest > 0 and end - lowest > least and not is_learning:
        yield describe(
            "LOG002/held-out", lowest=lowest, end=end, rise=end - lowest, step=curve[-1][0]
        )


def _resumed(log: Log) -> Iterable[Finding]:
    """A loss that is higher after a resumption than before."""
    for step in log.resumed:
        losses_before = [value for s, value in log.losses if s < step][-10:]
        losses_after = [value for s, value in log.losses if s >= step][:5]
        if len(losses_before) < 3 or len(losses_after) < 2:
            continue
        start, end = statistics.median(losses_before), statistics.median(losses_after)
        least = max(limit("LOG013", "nats"), limit("LOG013", "share") * start)
        if end - start <= max(least, 3 * noise(losses_before)):
            continue
        yield describe(
            "LOG013",
            start=start,
            end=end,
            rise=end - start,
            step=step,
            **_explain_rise(log.rate, step),
        )


def _explain_rise(rates: Points, step: int) -> dict[str, Any]:
    """The name of the cause of a higher loss, and the learning rates around the resumption."""
    old_rates = [rate for s, rate in rates if s < step][-1:]
    new_rates = [rate for s, rate in rates if s >= step][:1]
    for old, new in zip(old_rates, new_rates, strict=False):
        if abs(new - old) > 0.2 * max(old, new):
            return {"cause": "rate", "old_rate": old, "new_rate": new}
    return {"cause": "state"}
