"""Causes in the optimiser: its eps, its betas, clipping, its gradients, weight decay."""

from __future__ import annotations

import math
import statistics
from itertools import pairwise

from pellucid.diagnosis.causes.bounds import severity_of_lengths, share_left
from pellucid.diagnosis.causes.candidate import Candidate, Cause, suspect
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.finding import limit

#: With fewer readings of the weights, their course is unknown.
_MIN_READINGS = 4


def large_eps(view: HistoryView) -> Candidate | None:
    """An eps that takes the place of the gradients' size, by Adam's memory or its first step.

    That is 1 times the rate, as the formula says; a warm-up from a rate of 0 hides it.
    """
    first, eps, share = view.first("update.effective_step"), view.facts.eps, view.facts.below_eps
    if eps is not None and eps <= limit("OPT009", "usual"):
        return None
    if eps is not None and share is not None and share > limit("OPT009", "share"):
        return suspect("OPT009/memory", share=share, eps=eps, step=1)
    if first is None or first > limit("OPT009", "first"):
        return None
    last = view.last("update.effective_step")
    return suspect(
        "OPT009", 0.9 if eps is not None else 0.6, first=first, last=last, eps=eps, step=1
    )


def swapped_betas(view: HistoryView) -> Candidate | None:
    """A first beta that is larger than the second."""
    betas = view.facts.betas
    if betas is None or betas[0] <= betas[1]:
        return None
    return suspect("OPT016", betas=betas, difference=betas[0] - betas[1], step=0)


def long_momentum(view: HistoryView) -> Candidate | None:
    """An average of gradients that reaches further back than the training."""
    betas = view.facts.betas
    factor = view.facts.momentum if betas is None else betas[0]
    if factor is None or not limit("OPT018", "factor") <= factor < 1:
        return None
    memory, total = 1 / (1 - factor), view.facts.total_steps or view.updates
    if memory < limit("OPT018", "share") * total or not total:
        return None
    return suspect("OPT018", factor=factor, memory=memory, total=total, step=0)


def tight_clip(view: HistoryView) -> Candidate | None:
    """A clipping limit far below the usual norm."""
    clip, share = view.facts.clip_norm, share_left(view)
    norms = [value for _, value in view.history.grad_norms if math.isfinite(value)]
    if clip is None or (len(norms) < 3 and share is None):
        return None
    # of few norms, the smallest one has to be far above the limit too
    cut = share or clip / max(min(norms) if len(norms) < 5 else statistics.median(norms), 1e-30)
    is_tiny = clip < limit("OPT012", "tiny") and sum(map(view.at_clip, norms)) > 0.98 * len(norms)
    if cut > limit("OPT012", "cut") and not is_tiny:
        return None
    # adaptive steps have one size for gradients of any length
    adapts = view.facts.betas is not None or bool(view.readings("update.effective_step"))
    return suspect(
        "OPT012",
        0.85 if adapts else 0.95,
        clip=clip,
        cut=min(cut, 1.0),
        step=next((step for step, _ in view.history.grad_norms), 0),
        severity=severity_of_lengths(view, adapts=adapts),
    )


def still_weights(view: HistoryView) -> Candidate | None:
    """A matrix that no update moves while the others move."""
    norms = dict(view.history.grad_norms)
    # without any gradient nothing has to move: a policy whose answers are all as good
    lows = [r for r in view.readings("update.ratio_low", after=1) if norms.get(r.step) != 0]
    if len(lows) < 3 or any(reading.value != 0 for reading in lows) or view.rate == 0:
        return None
    others_move = bool(view.usual("update.ratio"))
    return suspect(
        "OPT002/history",
        clause="One matrix does not move" if others_move else "No matrix moves",
        ratio=0.0,
        place=lows[-1].place if others_move else "every matrix",
        step=lows[0].step,
        severity=None if others_move else "fatal",
    )


def cut_off_blocks(view: HistoryView) -> Candidate | None:
    """Gradients of exactly 0 at the first block, reading after reading, and others at the last.

    A head that begins at zero hides all blocks from the first updates, and float16 loses small
    numbers.
    """
    ratios, zeros = view.readings("gradient.depth_ratio"), view.readings("gradient.zeros")
    if len(ratios) < limit("GRD002", "readings") or ratios[-1].step <= limit("GRD002", "updates"):
        return None
    if any(reading.value for reading in ratios) or view.facts.weights == "float16":
        return None
    shares = [reading.value for reading in zeros]
    # what underflows is small, and not zero, in its samples
    if not shares or not limit("GRD002", "zeros") < min(shares) <= max(shares) < 1:
        return None
    return suspect(
        "GRD002/depth",
        n=len(ratios),
        ratio=0.0,
        zeros=min(shares),
        step=ratios[0].step,
        severity=None if view.fresh else "note",
    )


def mostly_frozen(view: HistoryView) -> Candidate | None:
    """All blocks of a model with new weights are frozen; or a part, and it learns little.

    Blocks that were frozen as they were drawn tell of themselves. A head that reads classes or
    numbers off a frozen body is a probe, which may be meant; a new model of tokens is none.
    """
    untrained, size = view.facts.untrained or 0.0, view.facts.vocab_size
    is_of_tokens = size is not None and size > limit("GRD003", "classes")
    is_long = view.updates >= limit("GRD003", "updates")
    severity = "warn" if is_of_tokens else "note"
    if untrained >= limit("GRD003", "share") and is_long:
        return suspect("GRD003/untrained", share=untrained, step=0, severity=severity)
    # a frozen embedding that was trained is one of a model that was
    is_new = view.fresh and view.facts.random_table is not False
    frozen, is_new = view.facts.frozen, is_new and None not in (view.start, view.guessing)
    # adapters are tried on models of random numbers too
    if view.facts.random_table and is_new and is_long and not view.facts.adapted:
        return suspect("GRD003/embedding", frozen=frozen, step=0, severity=severity)
    if frozen is None or frozen < limit("GRD003", "share") or not is_new or not is_long:
        return None
    if view.facts.frozen_body:
        return suspect("GRD003/body", share=frozen, step=0, severity=severity)
    if view.facts.adapted or (view.learnt or 0.0) > limit("GRD003", "learnt"):
        return None
    return suspect("GRD003/watch", share=frozen, learnt=view.learnt, step=0, severity=severity)


def never_cleared(view: HistoryView) -> Candidate | None:
    """Gradients of earlier updates that remain when new ones arrive."""
    mark = view.often("left", limit("OPT014", "share"))
    if mark is not None and mark.value > limit("OPT014", "left"):
        return suspect("OPT014", left=mark.value, step=mark.first)
    leftover = view.lasting("gradient.left", lambda v: v > limit("OPT014", "left"))
    if leftover is not None and "left" not in view.history.marks:
        return suspect("OPT014", left=leftover.value, step=leftover.step)
    return None if view.readings("gradient.left") else _similar_gradients(view)


def _similar_gradients(view: HistoryView) -> Candidate | None:
    """Without that sign: gradients that are nearly the same at every reading, and grow."""
    cosines = [reading.value for reading in view.readings("gradient.cosine", after=20)]
    norms = [value for _, value in view.history.grad_norms]
    if len(cosines) < 3 or min(cosines[-3:]) < limit("OPT014", "alike") or len(norms) < 20:
        return None
    n = len(norms) // 4
    growth = statistics.median(norms[-n:]) / max(statistics.median(norms[:n]), 1e-30)
    is_sure = growth > limit("OPT014", "growth")
    return suspect(
        "OPT014/cosine",
        0.9 if is_sure else 0.6,
        cosine=statistics.median(cosines),
        growth=growth,
        step=20,
        rivals=() if is_sure else ("DAT001",),
    )


def lost_memory(view: HistoryView) -> Candidate | None:
    """Steps of Adam with full size again in the middle of a training, and a loss that jumps."""
    steps = view.readings("update.effective_step", after=30)
    low, high = limit("OPT015", "before"), limit("OPT015", "after")
    for last, current in pairwise(steps):
        if last.value < low and current.value > high and _jumps(view, current.step):
            return suspect("OPT015", effective=current.value, step=current.step)
    return None


def stale_memory(view: HistoryView) -> Candidate | None:
    """Gradients larger than expected, then a jump of the loss, with a long memory."""
    betas = view.facts.betas
    if betas is None or betas[1] < limit("OPT008", "beta2"):
        return None
    if (candidate := _small_steps(view, betas[1])) is not None:
        return candidate
    for reading in view.readings("gradient.rms_t", after=30):
        if reading.value > limit("OPT008", "rms") and _jumps(view, reading.step):
            return suspect(
                "OPT008",
                rms=reading.value,
                beta2=betas[1],
                place=reading.place,
                step=reading.step,
                severity="note" if view.goes_well else None,
            )
    return None


def _small_steps(view: HistoryView, beta2: float) -> Candidate | None:
    """A jump of the loss, and small steps after it because Adam remembers it for long."""
    steps, memory = view.readings("update.effective_step", after=30), view.memory
    if memory is None or memory < view.updates or (view.rose or 0) < 0.3:
        return None
    for i, current in enumerate(steps[1:-2], start=1):
        before = steps[i - 1].value
        effective = statistics.median(reading.value for reading in steps[i + 1 : i + 4])
        if _jumps(view, current.step) and before > 0 and effective < 0.75 * before:
            return suspect(
                "OPT008/small steps",
                ratio=effective / before,
                beta2=beta2,
                memory=memory,
                effective=effective,
                step=current.step,
            )
    return None


def _jumps(view: HistoryView, step: int) -> bool:
    """Whether the loss rises around an update."""
    n = int(limit("OPT008", "within"))
    points = view.history.losses
    losses_before = [v for s, v in points if step - n <= s < step - 1]
    losses_after = [v for s, v in points if step - 1 <= s <= step + n]
    if len(losses_before) < 3 or not losses_after:
        return False
    return max(losses_after) > max(losses_before) + limit("OPT008", "jump")


def heavy_decay(view: HistoryView) -> Candidate | None:
    """Weights that shrink, with a product of rate and decay that explains it."""
    decay, rate = view.facts.weight_decay, view.rate
    if not decay or not rate or rate * decay < limit("OPT010", "product"):
        return None
    size, rms = _shrinkage(view, "weights.size"), _shrinkage(view, "embeddings.rms")
    least = min((ratio for ratio in (size, rms) if ratio is not None), default=None)
    # gains begin at 1, and end at 1 / decay at most if they shrink by e or more
    shrinks_gains = view.facts.decays == "all" and decay >= limit("OPT010", "gains")
    shrinkage = decay * sum(value for _, value in view.history.rates)
    fades = shrinkage >= limit("OPT010", "way")
    is_high = decay > limit("OPT010", "decay") or (shrinks_gains and fades)
    is_adam = view.facts.optimiser in ("Adam", "AdamW") or view.facts.betas is not None
    # what is added is forgotten after 1 / (rate x decay) updates; of a usual decay the rate is why
    is_short = rate * decay >= limit("OPT010", "forgets")
    is_usual = is_adam and decay <= limit("OPT010", "usual")
    forgets = fades and is_short and not is_usual and not decayed_gains(view)
    sizes = [reading.value for reading in view.readings("weights.size")]
    # two in a row are no chance
    is_small = len(sizes) > 2 and max(sizes[-2:]) <= limit("OPT010", "shrunk") * sizes[0]
    is_seen = len(sizes) >= _MIN_READINGS or is_small
    if is_adam and is_high and not (is_seen or forgets or view.goes_well):
        return suspect("OPT010/limit", decay=decay)
    if least is None or least > limit("OPT010", "shrunk"):
        memory, key = 1 / (rate * decay), "OPT010/forgets"
        return suspect(key, n=memory, times=shrinkage, severity="warn") if forgets else None
    return suspect("OPT010", least=least, decay=rate * decay, size=size, rms=rms)


def _shrinkage(view: HistoryView, id: str) -> float | None:
    """The ratio of a sign's last value to its first."""
    first, last = view.first(id), view.last(id)
    return last / first if first and last is not None else None


def decayed_gains(view: HistoryView) -> Candidate | None:
    """Gains that fall while decay shrinks all parameters."""
    gain, first = view.last("norm.gain_low"), view.first("norm.gain_low")
    decay = (view.facts.weight_decay or 0) * sum(v for _, v in view.history.rates)
    if view.facts.decays != "all" or decay < 0.2 or gain is None or first is None or first < 0.9:
        return None
    if gain > limit("OPT011", "gain"):
        return None
    last = view.readings("norm.gain_low")[-1]
    return suspect("OPT011", first=first, gain=gain, place=last.place, step=last.step)


CAUSES: tuple[Cause, ...] = (
    large_eps,
    swapped_betas,
    long_momentum,
    tight_clip,
    still_weights,
    cut_off_blocks,
    mostly_frozen,
    never_cleared,
    lost_memory,
    stale_memory,
    heavy_decay,
    decayed_gains,
)
