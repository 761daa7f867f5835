"""The findings in a log's gradient norms and learning rates, and in values that are not finite."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable

from pellucid.diagnosis.finding import Finding, describe, limit
from pellucid.diagnosis.logs.statistics import Log, ends, values


def of_updates(log: Log) -> list[Finding]:
    """Values that are not finite and rates of 0: faults of any objective, in no order."""
    return [*_stopped(log), *_rates(log)]


def of_gradients(log: Log) -> list[Finding]:
    """Gradients of a loss that falls as the model learns, in no order."""
    checks = (_zero_norms, _size, _clipped)
    return [finding for check in checks for finding in check(log)]


def _stopped(log: Log) -> Iterable[Finding]:
    if log.stopped is None:
        yield from _unscored(log)
        return
    step = log.stopped[0]
    is_hidden = any(s == step and value == 0 for s, value in log.loss)
    state = "the loss is not finite"
    if is_hidden:
        state = "the loss is 0 with a gradient norm that is not finite"
    elif log.stopped[1] == "gradient" and log.loss:
        state = "the loss is finite, but no gradient norm is"
    elif log.stopped[1] == "gradient":
        state = "no gradient norm is finite"
    norms = [value for s, value in log.grad_norm if s < step and math.isfinite(value)]
    yield describe(
        "LOG001",
        state=state,
        largest=max(norms[-3:], default=0.0),
        usual=statistics.median(norms) if norms else 0.0,
        cause=_why_stopped(log, step, norms),
        step=step,
    )


def _unscored(log: Log) -> Iterable[Finding]:
    """A held-out loss that is not a number, up to the last evaluation."""
    finite = [i for i, (_, value) in enumerate(log.held_out) if math.isfinite(value)]
    ending = log.held_out[finite[-1] + 1 if finite else 0 :]
    if ending:
        yield describe("LOG001/held-out", n=len(ending), step=ending[0][0])


def _why_stopped(log: Log, step: int, norms: list[float]) -> str:
    """The name of the cause: no finite loss, a rise before the end, or no warning."""
    losses = [value for s, value in log.loss if s < step and math.isfinite(value)]
    if not any(math.isfinite(value) for s, value in log.loss if s <= step) and not losses:
        return "never finite"
    if len(norms) >= 5:
        usual = max(statistics.median(norms), 1e-30)
        if max(norms[-3:]) > limit("LOG008", "times") * usual:
            return "gradients grew"
    if len(losses) >= 5 and max(losses[-3:]) > statistics.median(losses[-30:]) * 1.5:
        return "loss rose"
    return "float16" if log.facts.precision == "fp16" else "no warning"


def _zero_norms(log: Log) -> Iterable[Finding]:
    """Gradients that are exactly zero, in rows that have still something to learn.

    A hinge has no gradient where it is 0: then its loss is a small part of the first one.
    """
    norms, losses = values(log.grad_norm), dict(log.loss)
    first = log.loss[0][1] if log.loss else 0.0
    zero = sum(
        norm == 0 and losses.get(step, first) >= limit("LOG006", "left") * first
        for step, norm in log.grad_norm
    )
    if len(norms) < 3 or zero / len(norms) < limit("LOG006", "share") or log.stopped is not None:
        return
    yield describe("LOG006", zero=zero, n=len(norms), share=zero / len(norms))


def _size(log: Log) -> Iterable[Finding]:
    """Gradient norms that go to zero, or grow and stay large."""
    points = [(step, norm) for step, norm in log.grad_norm if math.isfinite(norm) and norm > 0]
    if len(points) < limit("LOG008", "points"):
        return
    first, last = ends(tuple(points))
    losses, norms = values(log.losses), values(tuple(points))
    has_learnt = bool(losses) and losses[-1] < 0.1 * losses[0]
    if last < first / limit("LOG007", "times") and not has_learnt:
        yield describe("LOG007", first=first, last=last, ratio=first / last)
    usual, tail = statistics.median(norms), norms[-max(3, len(norms) // 20) :]
    least = min(tail)
    if least > limit("LOG008", "times") * usual:
        yield describe("LOG008", usual=usual, n=len(tail), least=least, ratio=least / usual)


def _clipped(log: Log) -> Iterable[Finding]:
    """Norms that are all clipped to one number, or far above the clipping limit."""
    norms = values(log.grad_norm)
    if len(norms) < limit("LOG009", "points"):
        return
    usual, clip = statistics.median(norms), log.facts.clip_norm
    share = sum(abs(norm - usual) <= 1e-3 * usual for norm in norms) / len(norms)
    if usual > 0 and share >= limit("LOG009", "share"):
        yield describe("LOG009", share=share, usual=usual)
    elif clip and usual > limit("LOG009", "times") * clip:
        share = sum(norm > clip for norm in norms) / len(norms)
        yield describe("LOG009/limit", clip=clip, usual=usual, share=share)


def _rates(log: Log) -> Iterable[Finding]:
    """Learning rates that are always 0, or long before the end."""
    rates = values(log.rate)
    if len(rates) < 3:
        return
    n = len(rates)
    zero = next((i for i, rate in enumerate(reversed(rates)) if rate != 0), n)
    if zero == n:
        yield describe("OPT004/log", n=n, rate=0.0)
    elif zero >= max(limit("LOG014", "rows"), limit("LOG014", "share") * n):
        yield describe("LOG014", zero=zero, n=n, share=zero / n)
