"""What a log's gradient norms and learning rates show, and where its numbers stop being numbers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable

from pellucid.diagnosis.finding import Finding, build_finding, evidence, limit
from pellucid.diagnosis.logs.statistics import Log, ends, values


def of_gradients(log: Log) -> list[Finding]:
    """Everything that norms and rates show, in no order."""
    checks = (_stopped, _none, _size, _clipped, _rates)
    return [finding for ask in checks for finding in ask(log)]


def _stopped(log: Log) -> Iterable[Finding]:
    if log.stopped is None:
        return
    step = log.stopped[0]
    hidden = any(s == step and value == 0 for s, value in log.loss)
    says = "is 0 with a gradient norm that is no number" if hidden else "is no number"
    sign = evidence("LOG001", "first update without a number", step)
    yield build_finding(
        "LOG001",
        f"From update {step} on the loss {says}.",
        sign,
        where=f"update {step}",
        step=step,
        cause=_why_stopped(log, step),
        confidence=0.7,
    )


def _why_stopped(log: Log, step: int) -> str:
    """What came before it: nothing, a climb, or no warning at all."""
    losses = [value for s, value in log.loss if s < step and math.isfinite(value)]
    if not losses:
        return (
            "it never was a number: labels that are all ignored, weights that hold NaN, or "
            "float16 weights that are trained directly"
        )
    norms = [value for s, value in log.grad_norm if s < step and math.isfinite(value)]
    usual = statistics.median(norms) if norms else 0.0
    if len(norms) >= 5 and max(norms[-3:]) > limit("LOG008", "times") * max(usual, 1e-30):
        return (
            f"gradients grew first, to {max(norms[-3:]):.3g} where {usual:.3g} is usual: steps "
            "that are too large (lower the learning rate, warm up longer, clip)"
        )
    if len(losses) >= 5 and max(losses[-3:]) > statistics.median(losses[-30:]) * 1.5:
        return "the loss rose first: steps that are too large, or a bad batch"
    if log.facts.precision == "fp16":
        return "it came without a warning, in float16: an overflow in one module is likely"
    return (
        "it came without a warning: a batch in which nothing is supervised, a row that may look "
        "at nothing, or an overflow in half precision"
    )


def _none(log: Log) -> Iterable[Finding]:
    """Gradients that are exactly zero."""
    norms = values(log.grad_norm)
    zero = sum(norm == 0 for norm in norms)
    if len(norms) < 3 or zero / len(norms) < limit("LOG006", "share") or log.stopped is not None:
        return
    yield build_finding(
        "LOG006",
        f"{zero} of {len(norms)} gradient norms are exactly 0.",
        evidence("LOG006", "share of norms that are 0", zero / len(norms)),
        where="gradients",
        cause="no weight that is trained is reached by the loss: frozen weights, a detach(), or "
        "gradient checkpointing without enable_input_require_grads()",
        confidence=0.9,
    )


def _size(log: Log) -> Iterable[Finding]:
    """Gradient norms that go to nothing, or grow and stay large."""
    norms = [(step, norm) for step, norm in log.grad_norm if math.isfinite(norm) and norm > 0]
    if len(norms) < limit("LOG008", "points"):
        return
    first, last = ends(tuple(norms))
    losses = values(log.losses)
    learnt = bool(losses) and losses[-1] < 0.1 * losses[0]
    if last < first / limit("LOG007", "times") and not learnt:
        yield build_finding(
            "LOG007",
            f"The gradient norm went from {first:.3g} to {last:.3g}, and the loss is not learnt.",
            evidence("LOG007", "norm at first / norm now", first / last),
            where="gradients",
            cause="softmax or an activation saturates, a branch died, or half precision has no "
            "smaller numbers; gradients layer by layer tell them apart",
            confidence=0.6,
        )
    usual = statistics.median(norm for _, norm in norms)
    tail = [norm for _, norm in norms[-max(3, len(norms) // 20) :]]
    if min(tail) > limit("LOG008", "times") * usual:
        yield build_finding(
            "LOG008",
            f"The gradient norm is usually {usual:.3g}; the last {len(tail)} are {min(tail):.3g} "
            "at least.",
            evidence("LOG008", "smallest of the last norms / median", min(tail) / usual),
            where="gradients",
            cause="the run is about to diverge: steps that are too large, or scores of attention "
            "that grow without end",
            confidence=0.7,
        )


def _clipped(log: Log) -> Iterable[Finding]:
    """Norms that are all cut to one number, or all far above what they are cut to."""
    norms = values(log.grad_norm)
    if len(norms) < limit("LOG009", "points"):
        return
    usual, clip = statistics.median(norms), log.facts.clip_norm
    same = sum(abs(norm - usual) <= 1e-3 * usual for norm in norms) / len(norms)
    if usual > 0 and same >= limit("LOG009", "share"):
        yield build_finding(
            "LOG009",
            f"{same:.0%} of the gradient norms are {usual:.4g}: what is logged is what is left "
            "after clipping.",
            evidence("LOG009", "share of norms at one value", same),
            where="gradients",
            confidence=0.8,
        )
    elif clip and usual > limit("LOG009", "times") * clip:
        over = sum(norm > clip for norm in norms) / len(norms)
        yield build_finding(
            "LOG009",
            f"Gradients are clipped at {clip:.4g}, and their norm is {usual:.4g} at the median.",
            evidence("LOG009", "share of updates that are clipped", over),
            where="gradients",
            confidence=0.8,
        )


def _rates(log: Log) -> Iterable[Finding]:
    """Learning rates that are 0 all along, or long before the end."""
    rates = values(log.rate)
    if len(rates) < 3:
        return
    zero = next((n for n, rate in enumerate(reversed(rates)) if rate != 0), len(rates))
    if zero == len(rates):
        yield build_finding(
            "OPT004",
            f"The learning rate is 0 in all {len(rates)} rows.",
            evidence("OPT004", "learning rate", 0.0),
            where="learning rate",
            cause="the scheduler is never stepped, or was made with 0",
            severity="fault",
        )
    elif zero >= max(limit("LOG014", "rows"), limit("LOG014", "share") * len(rates)):
        yield build_finding(
            "LOG014",
            f"The last {zero} of {len(rates)} rows have a learning rate of 0.",
            evidence("LOG014", "share of rows at the end with a rate of 0", zero / len(rates)),
            where="learning rate",
            confidence=0.9,
        )
