"""Causes in the optimiser: its eps, its memory, its decay, clipping, what it is handed."""

from __future__ import annotations

import statistics
from itertools import pairwise

from pellucid.diagnosis.causes.candidate import Candidate, Cause, Comparison
from pellucid.diagnosis.causes.history_view import HistoryView, clue
from pellucid.diagnosis.finding import limit


def large_eps(view: HistoryView) -> Candidate | None:
    """A first step of Adam's that is not 1 times the rate, as the formula has it."""
    first = view.first("update.effective_step")
    eps = view.facts.eps
    if first is None or first > limit("OPT009", "first"):
        return None
    if eps is not None and eps <= limit("OPT009", "usual"):
        return None
    later = view.last("update.effective_step")
    return Candidate(
        code="OPT009",
        likely=0.9 if eps is not None else 0.6,
        what=f"Adam's first step was {first:.2g} times the learning rate; its formula says 1.",
        clues=clue("OPT009", "update.effective_step, first", first)
        + clue("OPT009", "update.effective_step, last", later)
        + clue("OPT009", "eps", eps),
        where="optimiser.eps",
        step=1,
    )


def swapped_betas(view: HistoryView) -> Candidate | None:
    """A first beta that is larger than the second."""
    betas = view.facts.betas
    if betas is None or betas[0] <= betas[1]:
        return None
    return Candidate(
        code="OPT016",
        likely=0.97,
        what=f"betas are ({betas[0]:g}, {betas[1]:g}).",
        clues=clue("OPT016", "beta1 less beta2", betas[0] - betas[1]),
        where="optimiser.betas",
        step=0,
    )


def tight_clip(view: HistoryView) -> Candidate | None:
    """A limit far below the usual norm."""
    clip = view.facts.clip_norm
    norms = [value for _, value in view.history.grad_norms]
    if clip is None or len(norms) < 5:
        return None
    cut = clip / max(statistics.median(norms), 1e-30)
    at_clip = sum(map(view.at_clip, norms)) / len(norms) > 0.98
    tiny = at_clip and clip < limit("OPT012", "tiny")
    if cut > limit("OPT012", "cut") and not tiny:
        return None
    return Candidate(
        code="OPT012",
        likely=0.85 if _adapts(view) else 0.95,
        what=f"Gradients are cut to a norm of {clip:.3g}, every one of them.",
        clues=clue("OPT012", "limit over the usual norm", min(cut, 1.0))
        + clue("OPT012", "clip_norm", clip),
        where="training.clip_norm",
        step=view.history.grad_norms[0][0],
        severity="note" if view.goes_well and _adapts(view) else None,
    )


def _adapts(view: HistoryView) -> bool:
    """Whether steps are of one size, however long gradients are."""
    return view.facts.betas is not None or bool(view.readings("update.effective_step"))


def still_weights(view: HistoryView) -> Candidate | None:
    """A matrix that no update moves while the others do."""
    lows = view.readings("update.ratio_low", after=1)
    moving = view.usual("update.ratio")
    if len(lows) < 3 or any(read.value != 0 for read in lows) or view.rate == 0:
        return None
    alone = bool(moving)
    return Candidate(
        code="OPT002",
        likely=0.9,
        what=("One matrix" if alone else "No matrix")
        + f" moves at all, though it has a gradient, from update {lows[0].step} on.",
        clues=clue("OPT002", "update.ratio_low", 0.0),
        where=lows[-1].where if alone else "every matrix",
        step=lows[0].step,
        severity=None if alone else "fatal",
    )


def never_cleared(view: HistoryView) -> Candidate | None:
    """Gradients that are there already when those of an update arrive."""
    leftover = view.lasting("gradient.left", lambda v: v > 1e-3)
    if leftover is not None:
        return Candidate(
            code="OPT014",
            likely=0.97,
            what=f"When gradients arrive, others of {leftover.value:.2g} times their size are "
            "there.",
            clues=clue("OPT014", "gradient.left", leftover.value),
            where="the training loop",
            step=leftover.step,
        )
    return None if view.readings("gradient.left") else _repeated(view)


def _repeated(view: HistoryView) -> Candidate | None:
    """Where that was not seen: gradients nearly the same at every look, which grow."""
    same = limit("OPT014", "alike")
    late = [read.value for read in view.readings("gradient.cosine", after=20)]
    norms = [value for _, value in view.history.grad_norms]
    if len(late) < 3 or min(late[-3:]) < same or len(norms) < 20:
        return None
    n = len(norms) // 4
    grown = statistics.median(norms[-n:]) / max(statistics.median(norms[:n]), 1e-30)
    likely = 0.9 if grown > limit("OPT014", "growth") else 0.6
    return Candidate(
        code="OPT014",
        likely=likely,
        what=f"The gradients of two looks have a cosine of {statistics.median(late):.2f}, and "
        f"their norm is {grown:.3g} times what it was.",
        clues=clue("OPT014", "gradient.cosine", statistics.median(late)),
        where="the training loop",
        step=20,
        rivals=() if likely > 0.8 else ("DAT001",),
    )


def lost_memory(view: HistoryView) -> Candidate | None:
    """Adam's steps are of full size again in the middle of a training, and the loss jumps."""
    steps = view.readings("update.effective_step", after=30)
    low, high = limit("OPT015", "before"), limit("OPT015", "after")
    for last, current in pairwise(steps):
        if last.value < low and current.value > high and _jumps(view, current.step):
            return Candidate(
                code="OPT015",
                likely=0.8,
                what=f"At update {current.step} Adam took a first step again.",
                clues=clue("OPT015", "update.effective_step", current.value),
                where="optimiser state",
                step=current.step,
            )
    return None


def stale_memory(view: HistoryView) -> Candidate | None:
    """Gradients larger than expected, then a jump of the loss, with a long memory."""
    betas = view.facts.betas
    if betas is None or betas[1] < limit("OPT008", "beta2"):
        return None
    if (held := _held_back(view)) is not None:
        return held
    surprise = next(
        (
            read
            for read in view.readings("gradient.rms_t", after=30)
            if read.value > limit("OPT008", "rms") and _jumps(view, read.step)
        ),
        None,
    )
    if surprise is None:
        return None
    return Candidate(
        code="OPT008",
        likely=0.6,
        what=f"Gradients were {surprise.value:.3g} times what the optimiser expects, and then the "
        "loss jumped.",
        clues=clue("OPT008", "gradient.rms_t", surprise.value) + clue("OPT008", "beta2", betas[1]),
        where=surprise.where,
        step=surprise.step,
        severity="note" if view.goes_well else None,
        rivals=("DAT008", "OPT005"),
    )


def _held_back(view: HistoryView) -> Candidate | None:
    """A jump after which steps are small, for the memory of it does not go."""
    betas, memory = view.facts.betas, view.memory
    steps = view.readings("update.effective_step", after=30)
    if betas is None or memory is None or memory < view.updates or (view.rose or 0) < 0.3:
        return None
    for i, current in enumerate(steps[1:-2], start=1):
        later = statistics.median(read.value for read in steps[i + 1 : i + 4])
        if _jumps(view, current.step) and later < 0.75 * steps[i - 1].value:
            return Candidate(
                code="OPT008",
                likely=0.9,
                what=f"The loss jumped about update {current.step}, and since then steps are "
                f"{later / steps[i - 1].value:.2f} of what they were: beta2 = {betas[1]:g} "
                f"remembers the jump for {memory:.0f} updates.",
                clues=clue("OPT008", "update.effective_step", later)
                + clue("OPT008", "beta2", betas[1]),
                where="optimiser.betas",
                step=current.step,
                severity="fault",
                rivals=("OPT005",),
            )
    return None


def _jumps(view: HistoryView, step: int) -> bool:
    """Whether the loss rises around an update, of what it was before."""
    within = int(limit("OPT008", "within"))
    points = view.history.losses
    losses_before = [v for s, v in points if step - within <= s < step - 1]
    losses_after = [v for s, v in points if step - 1 <= s <= step + within]
    if len(losses_before) < 3 or not losses_after:
        return False
    return max(losses_after) > max(losses_before) + limit("OPT008", "jump")


CAUSES: tuple[Cause, ...] = (
    large_eps,
    swapped_betas,
    tight_clip,
    still_weights,
    Comparison(
        code="GRD001",
        number="gradient.missing",
        rule=(">", 0),
        likely=0.9,
        what="{value:.0%} of the trainable tensors have no gradient.",
        where="",
    ),
    never_cleared,
    lost_memory,
    stale_memory,
)
