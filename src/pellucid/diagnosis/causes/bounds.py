"""Causes in bounds, cuts and noise, as the ledger of updates saw them in many updates."""

from __future__ import annotations

import math
import statistics

from pellucid.diagnosis.causes.candidate import (
    Candidate,
    Cause,
    Comparison,
    likelihood,
    suspect,
    suspect_mark,
)
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.finding import Severity, limit


def severity_of_lengths(view: HistoryView, *, adapts: bool | None = None) -> Severity | None:
    """A note if the steps do not depend on the length of the gradients.

    Args:
        view: The training.
        adapts: Whether the optimiser divides gradients by their size; by default, whether it has
            the betas of Adam.
    """
    adapts = view.facts.betas is not None if adapts is None else adapts
    is_plain = view.facts.momentum is not None or not view.history.signs
    if view.facts.betas is None and not is_plain:
        return "note"  # Adafactor and Adagrad have neither, and divide gradients by their size too
    if steps_in_rates(view) > limit("UPD008", "steps"):
        return "note"  # each number moves by about the rate, as by the signs of gradients
    if not adapts or view.has_full_steps is False:
        return None  # eps is as large as the gradients that are left
    # where eps hides the gradients, Adam's state tells of short steps
    is_scaled = (view.facts.remembered_step or 0.0) > limit("OPT009", "later")
    return "note" if view.has_full_steps or view.goes_well or is_scaled else None


def severity_of_factors(view: HistoryView) -> Severity | None:
    """A note if a loss that is some times too large comes down with steps of the usual length."""
    return severity_of_lengths(view) if view.goes_well else None


def steps_in_rates(view: HistoryView) -> float:
    """The usual step of a number, in learning rates; 0 if it is unknown."""
    drift, strides = view.history.marks.get("drift"), view.history.marks.get("stride")
    if drift is None or strides is None:
        return 0.0
    scales = dict(zip(drift.steps, drift.values, strict=True))
    steps = [
        stride / scales[step]
        for step, stride in zip(strides.steps, strides.values, strict=True)
        if scales.get(step)
    ]
    return statistics.median(steps) if steps else 0.0


def weights_at_bound(view: HistoryView) -> Candidate | None:
    """Weights of which many have their matrix's largest magnitude, in updates or at the end."""
    mark, share = view.often("weight_bound", limit("UPD012", "share")), view.facts.bounded
    if mark is not None:
        return suspect_mark("UPD012", mark, likelihood(mark))
    if share is None or share < limit("UPD012", "matrices"):
        return None
    severity = "note" if view.goes_well else None
    return suspect("UPD012/end", share=share, step=view.updates, severity=severity)


def gradients_at_bound(view: HistoryView) -> Candidate | None:
    """Gradients of which many have the largest magnitude of their matrix.

    A note while the training goes well: Adam divides each gradient by its own size anyway.
    """
    mark = view.often("gradient_bound", limit("UPD012", "share"))
    if mark is None:
        return None
    severity = "note" if view.goes_well and view.facts.betas is not None else None
    return suspect_mark("UPD012/gradients", mark, likelihood(mark), severity=severity)


def noisy_gradients(view: HistoryView) -> Candidate | None:
    """Gradients to which something is added after the backward pass.

    It is a note if that is short, or while the loss comes down: some add noise on purpose, and the
    gradients of small batches differ as much among themselves (Neelakantan et al. 2015,
    1511.06807). Of many ranks, each one's own gradients are no more than a part of the mean.
    """
    mark = view.often("noise", limit("UPD011", "share"))
    if mark is None or mark.n_seen < limit("UPD011", "noises") or view.history.ranks is not None:
        return None
    is_meant = view.goes_well or mark.value <= limit("UPD011", "noise")
    severity = "note" if is_meant else "warn"
    return suspect_mark("UPD011/noise", mark, likelihood(mark), severity=severity)


def always_cut(view: HistoryView) -> Candidate | None:
    """Gradients that are far shorter at every step than when they arrived."""
    mark, used = view.history.marks.get("cut"), share_left(view)
    if mark is None or used is None or view.facts.clip_norm is not None:
        return None
    return suspect(
        "UPD008",
        likelihood(mark),
        cut=used,
        n=mark.n_seen,
        of=mark.n_seeable,
        step=mark.first,
        severity=severity_of_lengths(view),
    )


def share_left(view: HistoryView) -> float | None:
    """How little is left of nearly every gradient that arrives; None if it is enough, or unknown.

    A loss that is scaled up is scaled in its gradient by the logits too, which then weighs as much
    as the scale: what takes the scale off again is no cut.
    """
    mark = view.often("cut", limit("UPD008", "share"))
    if mark is None:
        return None
    used = mark.value * max(1.0, view.first("targets.weight") or 1.0)
    logs = [math.log2(value) for value in mark.values if value > 0]
    # a factor that stays the same is no clipping but a mean over parts, and 1024 a loss scale
    is_scale = all(abs(value - round(value)) < limit("UPD008", "spread") for value in logs)
    if not logs or max(logs) - min(logs) < limit("UPD008", "spread") or is_scale:
        return None
    return used if used <= limit("UPD008", "cut") else None


CAUSES: tuple[Cause, ...] = (
    weights_at_bound,
    gradients_at_bound,
    noisy_gradients,
    always_cut,
    Comparison("LOS005/gap", "targets.gap", (">", "balance"), n=2),
    Comparison("LOS038", "logits.most", ("<", "most"), n=2),
    Comparison("LOS038/classes", "logits.class_most", ("<", "classes"), n=1),
    Comparison("LOS038/zeros", "logits.class_zeros", (">", "zeros"), n=1),
    Comparison("LOS038/pull", "logits.pull", ("<", "pull"), n=2),
)
