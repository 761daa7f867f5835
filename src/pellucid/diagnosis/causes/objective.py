"""Causes in the loss: summed, the wrong sign, another quantity than it seems.

The first reading takes its rows from the first batch. So the first reported loss and -log p on
these rows are about equal, unless the loss is wrong.
"""

from __future__ import annotations

import math
import statistics
from itertools import pairwise

from pellucid.diagnosis.causes.bounds import severity_of_factors
from pellucid.diagnosis.causes.candidate import Candidate, Comparison, suspect, suspect_mark
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.causes.long_steps import usual_stride
from pellucid.diagnosis.causes.optimiser import heavy_decay
from pellucid.diagnosis.causes.reference import has_teacher
from pellucid.diagnosis.finding import limit

#: If -log p on the first rows is lower, in nats, dropout alone makes the loss a multiple of it.
_LEAST = 0.1


def summed(view: HistoryView) -> Candidate | None:
    """A reported loss of many times -log p: one for each token, or for each micro-batch."""
    ratio = _reported_ratio(view)
    if ratio is None:
        return _sum_of_gradient(view)
    if ratio < 1.8:
        return None
    is_whole = abs(ratio - round(ratio)) < 0.06 * ratio and ratio < 33
    is_sure = ratio > 20 or is_whole
    weight = view.first("targets.weight")
    if weight is not None and abs(weight - 1) < limit("LOS013", "mean") and not is_whole:
        return suspect("LOS013/ratio", 0.8, ratio=ratio, step=0)  # of the tokens it is a mean
    return suspect(
        "LOS006/history",
        0.85 if is_sure else 0.6,
        code="LOS007" if is_whole else "LOS006" if is_sure else "LOS005",
        ratio=ratio,
        step=1,
        severity=severity_of_factors(view),
        rivals=("LOS006",) if is_whole and ratio > 8 else (),
    )


def other_labels(view: HistoryView) -> Candidate | None:
    """A loss that goes to zero while -log p of the next token does not."""
    probe, end = view.last("loss.probe"), view.end
    if probe is None or end is None or not view.fresh or _reported_ratio(view) is None:
        return None
    if (view.start or 0) > limit("LOS001", "loud") * (view.guessing or math.inf):
        return None  # weights that begin far too large have the same effect
    if view.readings("loss.probe")[-1].step < 0.8 * view.steps[-1]:
        return None  # the last reading is too old to compare it with the loss
    ceiling = min(view.guessing or 0, limit("LOS001", "share") * probe)
    if end > ceiling or probe - end < limit("LOS001", "gap"):
        return None
    # a fault, not fatal: curves alone do not show the labels
    return suspect("LOS001/history", end=end, probe=probe, ratio=end / probe, step=view.updates)


def climbing(view: HistoryView) -> Candidate | None:
    """A loss that rises steadily from the first update on, and perhaps steps along the gradient."""
    n, guessing, start = len(view.losses) // 4, view.guessing, view.start
    if n < 10 or start is None or view.end is None:
        return None
    if view.nan_share >= limit("LOS011", "share"):
        return None  # a mean over no labels is NaN, and no rise
    if view.facts.on_rewards and not view.facts.maximizes:
        return None  # what falls for a policy is no loss: only its rewards are to rise
    uphill = view.often("uphill", limit("LOS009", "uphill"))
    if uphill is not None and view.facts.on_rewards:
        return None  # a reward is to rise
    if uphill is None and usual_stride(view) > limit("OPT005", "stride"):
        return None  # so large steps can raise any loss
    if heavy_decay(view) is not None:
        return None  # the decay's part of a step may go along the gradient
    if guessing is None and (start < limit("LOS009", "nats") or view.facts.on_rewards):
        return None
    guessing = start if guessing is None else guessing
    quarters = view.quarters
    rises = sorted(quarters) == quarters
    # one batch may be easy; five in a row are not
    lowest = min(sum(view.losses[i : i + 5]) / 5 for i in range(4 * n - 4))
    if not rises or lowest < start - 0.5 or start > 2 * guessing:
        return None
    if uphill is not None and quarters[-1] > quarters[0]:
        return suspect(
            "LOS009/uphill",
            share=uphill.share,
            n=uphill.n_seeable,
            cosine=uphill.value,
            start=start,
            end=view.end,
            step=uphill.first,
        )
    if quarters[-1] <= 3 * guessing:
        return None
    return suspect("LOS009/rising", start=start, end=view.end, step=view.steps[0])


def other_pulls(view: HistoryView) -> Candidate | None:
    """Logits that are pulled harder than by the mean cross-entropy that the first call shows."""
    outputs, parts = view.history.marks.get("outputs"), view.history.marks.get("parts")
    weight = view.first("targets.weight")
    if outputs is None or parts is None or weight is None or outputs.n_seen < 4:
        return None
    # a teacher's loss is often multiplied by the square of its temperature
    is_known = view.learns_tokens and not has_teacher(view)
    is_mean = is_known and abs(weight * parts.value - 1) < limit("LOS013", "mean")
    # of few paid places, a sample says little: all updates have to agree
    if not is_mean or min(outputs.values) <= limit("LOS013", "pull"):
        return None
    return suspect("LOS013/outputs", total=min(outputs.values), step=outputs.first)


def lowered_targets(view: HistoryView) -> Candidate | None:
    """Updates that push targets down, all or some of them, in a training that does not learn.

    A policy gradient, a pair of answers and unlearning push some down too.
    """
    mark = view.history.marks.get("lowered")
    if mark is None or mark.n_seen < limit("LOS009", "times") or view.goes_well:
        return None
    if view.facts.on_rewards or view.facts.on_preferences:
        return None
    return suspect_mark("LOS009/lowered", mark)


def maximised(view: HistoryView) -> Candidate | None:
    """An optimiser that steps along the gradient, where the gradient names targets."""
    pays_targets = (view.first("targets.single") or 0.0) > limit("LOS009", "named")
    if not view.facts.maximizes or view.facts.on_rewards or not pays_targets:
        return None
    return suspect("LOS009/maximize", maximizes=True, step=0)


def _is_untaught(view: HistoryView) -> bool:
    """Whether no squared distance from a teacher's logits stands beside a cross-entropy.

    That is sound: most places still pull one token, as for a distance from ones and zeros they do
    not.
    """
    single = view.first("targets.single") or 0.0
    return not has_teacher(view) or single < limit("LOS010", "single")


def negative_loss(view: HistoryView) -> Candidate | None:
    """A loss below zero, although its objective is not; a turned sign lets it fall without end."""
    negative = [(s, v) for s, v in view.history.losses if v < -0.05]
    is_filler = len({value for _, value in negative}) == 1  # ranks without the loss print -1
    if view.facts.on_rewards or len(negative) < 3 or is_filler:
        return None
    if view.readings("targets.classes") and not view.facts.on_preferences:
        return suspect("LOS005/negative", lowest=min(view.losses), step=negative[0][0])
    names_some = (view.first("targets.single") or 0.0) > limit("LOS009", "single")
    if names_some and not has_teacher(view):
        return None  # the gradient names targets: other terms, or advantages, are negative
    (step, first), (_, last) = negative[0], negative[-1]
    # a corrected loss of pairs may fall below 0, and so may -log p of a density or a count, but
    # none begins there; -log p turned round begins far below 0, and a policy's loss near 0
    least = 0.0 if view.facts.on_preferences else limit("LOS009", "nats")
    # the first one may be the model's own, before the loop turns its sign
    if negative[0] not in view.history.losses[:2] or first > -least:
        return None
    is_level = len(negative) >= limit("LOS009", "level") and 2 * abs(last - first) < abs(first)
    key = "LOS005/level" if is_level and not view.facts.on_preferences else "LOS009/history"
    return suspect("LOS005/teacher" if names_some else key, first=first, last=last, step=step)


def diluted(view: HistoryView) -> Candidate | None:
    """A reported loss below -log p of the targets, because it counts places without a label too."""
    ratio, nats = _reported_ratio(view), view.first("targets.nats")
    is_own = nats is not None and nats > limit("LOS013", "known") and not has_teacher(view)
    if ratio is None and nats is not None and is_own and view.start:
        ratio = view.start / nats  # a loss of logits: the model knows no labels
    single, weight = view.first("targets.single"), view.first("targets.weight")
    if ratio is None or not 0 < ratio < 0.8:
        return None
    # if the gradient is known, it names one target at each place, and weighs it by as much less
    parts, paid_share = view.history.marks.get("parts"), view.first("targets.counted")
    if single is not None and single < limit("LOS010", "single"):
        return None
    if weight is not None:
        weight *= parts.value if parts is not None and parts.n_seen else 1.0
        if abs(weight / ratio - 1) > limit("LOS010", "weight"):
            return None
    # a loss with a weight, or divided by an update's number of parts, counts no ignored places
    is_other = paid_share is not None and abs(paid_share / ratio - 1) > limit("LOS010", "weight")
    if weight and paid_share:  # the gradient shows exactly that share, but for a place of each row
        is_other |= abs(paid_share / weight - 1) > limit("LOS010", "off")
    if is_other:
        # a part of the pull that is no line in p is another term, as of a teacher, and no factor
        is_line = view.first("targets.smoothing") is not None
        if weight is None or not is_line or (parts is not None and parts.value > 1):
            return None
        is_short = view.facts.optimiser == "SGD" and not view.goes_well  # Adam's steps are not
        return suspect("LOS007/divided", ratio=ratio, severity="warn" if is_short else "note")
    if ratio <= 0.02:
        return None
    return suspect("LOS010/history", ratio=ratio, step=1, severity=severity_of_factors(view))


def other_terms(view: HistoryView) -> Candidate | None:
    """Large terms of the loss besides -log p, judged by the config or by the numbers."""
    run, ratio = view.history.config, _reported_ratio(view)
    smoothing, z_loss = (
        0.0 if run is None else float(getattr(run.objective, name, 0.0))
        for name in ("label_smoothing", "z_loss")
    )
    is_higher = ratio is not None and 1 + limit("LOS013", "share") < ratio < 1.8
    is_raised = is_higher and not _may_be_other_rows(view)
    probe, end = view.last("loss.probe"), view.end
    if ratio is not None and probe and end and (view.facts.dropout or 0) < 0.15:
        ratio = end / probe if abs(ratio - 1) < 0.1 else ratio
        is_raised = is_raised or (
            ratio > 1.35 and end - probe > 0.8 and probe < (view.guessing or 0) - 0.3
        )
    if smoothing > limit("LOS013", "smoothing") or z_loss > limit("LOS013", "z_loss"):
        return suspect("LOS013", smoothing=smoothing, z_loss=z_loss, ratio=ratio, step=0)
    spread = view.first("targets.smoothing") or 0.0
    if spread > limit("LOS013", "smoothing"):
        return suspect("LOS013/gradient", spread=spread, step=1)
    if not is_raised:
        return None
    # a sound gradient at these logits: the other terms pull elsewhere, as a second head does
    weight = view.first("targets.weight")
    is_sound = weight is not None and abs(weight - 1) < limit("LOS013", "mean")
    is_meant = is_sound or has_teacher(view)
    return suspect("LOS013/ratio", ratio=ratio, step=0, severity="note" if is_meant else None)


def _may_be_other_rows(view: HistoryView) -> bool:
    """Whether the loss of a training differs from -log p as its own losses do among themselves.

    -log p is known of a few rows of the first part of the first update. Answers that a trained
    model knows to different degrees have other losses in each batch.
    """
    probe, start, parts = view.first("loss.probe"), view.start, view.history.marks.get("parts")
    early = view.losses[: int(limit("LOS013", "early"))]
    if probe is None or start is None or len(early) < 3:
        return False
    n_parts = parts.value if parts is not None and parts.n_seen else 1.0
    usual = statistics.median(abs(b - a) for a, b in pairwise(early)) * n_parts**0.5
    return start - probe < limit("LOS013", "usual") * usual


def lowered_by_terms(view: HistoryView) -> Candidate | None:
    """A first loss far below -log p of its targets, though its gradient is that of their mean."""
    nats, weight, start = view.first("targets.nats"), view.first("targets.weight"), view.start
    if nats is None or weight is None or start is None or view.facts.on_preferences:
        return None
    is_plain = min(view.first("targets.single") or 0.0, view.first("targets.evenness") or 0.0)
    is_mean = abs(weight - 1) < limit("LOS013", "mean") and is_plain > 1 - limit("LOS013", "mean")
    if not is_mean or nats < limit("LOS013", "known") or start > limit("LOS013", "left") * nats:
        return None
    return suspect("LOS013/lowered", start=start, nats=nats, step=view.steps[0])


def _reported_ratio(view: HistoryView) -> float | None:
    """The first reported loss over -log p on the first rows; None if either is unknown."""
    probe, start = view.first("loss.probe"), view.start
    is_plain = view.facts.objective in (None, "NextToken", "Seq2Seq")
    if not is_plain or probe is None or probe < _LEAST or start is None or view.steps[0] > 2:
        return None
    return start / probe if math.isfinite(start) else None


def _sum_of_gradient(view: HistoryView) -> Candidate | None:
    """A first loss that is a sum over the targets, as its gradient shows."""
    nats, weight, start = view.first("targets.nats"), view.first("targets.weight"), view.start
    if nats is None or nats < _LEAST or weight is None or start is None or view.steps[0] > 2:
        return None
    is_one_target = (view.first("targets.single") or 0.0) > 1 - limit("LOS013", "mean")
    if not is_one_target or view.facts.on_preferences or view.facts.on_rewards:
        return None
    ratio = start / nats
    if not math.isfinite(ratio) or min(ratio, weight) <= limit("LOS006", "tokens"):
        return None
    severity = "note" if view.goes_well else None  # its rate is as small as it has to be
    return suspect("LOS006/history", 0.97, ratio=ratio, step=1, severity=severity)


CAUSES = (
    Comparison(
        "LOS005/balance", "targets.unbalanced", (">", "balance"), n=1, condition=_is_untaught
    ),
    summed,
    other_labels,
    climbing,
    lowered_targets,
    other_pulls,
    maximised,
    negative_loss,
    diluted,
    other_terms,
    lowered_by_terms,
)
