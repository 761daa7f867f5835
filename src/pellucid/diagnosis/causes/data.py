"""Causes in data and labels, as far as curves show them."""

from __future__ import annotations

import math
import statistics
from collections import Counter

from pellucid.diagnosis.causes.candidate import Candidate, Cause, Comparison, suspect, suspect_mark
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.finding import limit


def only_frequencies(view: HistoryView) -> Candidate | None:
    """A plateau at the entropy of single tokens, with gradients that reach all blocks.

    Missing residuals and post-norm end there too, but their gradients vanish. Only the data can
    tell shuffled labels from corrupted inputs.
    """
    unigram, end = view.facts.unigram, view.end
    if unigram is None or end is None or not view.at_frequencies:
        return None
    if view.updates - view.warm_up_end < limit("DAT009", "updates"):
        return None
    if not view.facts.betas or not _is_early(view, unigram):
        return None  # a slow training stays there for long, and then leaves it
    ratio = view.usual("gradient.depth_ratio")
    reaches_all = ratio is None or ratio > limit("ARC002", "depth_ratio")
    return suspect(
        "DAT009",
        0.8 if reaches_all else 0.4,
        end=end,
        unigram=unigram,
        above=end - unigram,
        ratio=ratio,
        step=view.updates,
        rivals=() if reaches_all else ("ARC012",),
    )


def _is_early(view: HistoryView, unigram: float) -> bool:
    """Whether the loss had reached its plateau after a third of the training."""
    n = len(view.losses) // 3
    window = view.losses[n : n + 10]
    early_loss = statistics.fmean(window) if window else 0.0
    return abs(early_loss - unigram) < limit("DAT009", "above") or early_loss < unigram


def too_good(view: HistoryView) -> Candidate | None:
    """A loss far below the entropy of token pairs, earlier than learning allows."""
    gap = view.highest("loss.below_bigram", last_step=50)
    bigram, start, step = view.facts.bigram, view.start, int(limit("DAT011", "tokens"))
    early = [v for s, v in view.history.losses if s <= limit("DAT011", "tokens")]
    is_fast = (
        bigram is not None
        and start is not None
        and not view.facts.pretrained
        and start > bigram
        and len(early) >= 10
        and min(early) < limit("DAT011", "share") * bigram
    )
    if not is_fast and (gap is None or gap.value < limit("DAT011", "below")):
        return None
    return suspect("DAT011", lowest=min(early, default=0.0), updates=len(early), step=step)


def bad_batch(view: HistoryView) -> Candidate | None:
    """A single jump of the loss that comes back."""
    spikes = [step for step, rise in jumps(view) if rise > limit("DAT008", "jump")]
    if not spikes or view.history.stopped is not None or not view.goes_well:
        return None
    losses = [loss for step, loss in view.history.losses if step >= spikes[0]]
    # a trained model guesses worse than at random only if the batch is no text at all; a single
    # such batch is harmless
    is_foreign = view.guessing is not None and sum(v > view.guessing for v in losses) >= 2
    return suspect(
        "DAT008",
        0.7 if is_foreign else 0.5,
        steps=", ".join(map(str, spikes[:3])),
        guessing="; for some updates it was worse than guessing" if is_foreign else "",
        n=len(spikes),
        step=spikes[0],
        severity="warn" if is_foreign else None,
    )


def jumps(view: HistoryView) -> list[tuple[int, float]]:
    """The updates with a loss far above the window before them, and the rise of each."""
    window, k = int(limit("DAT008", "window")), limit("DAT008", "deviations")
    points, rises = view.history.losses, list[tuple[int, float]]()
    for i in range(20, len(points)):
        recent = [v for _, v in points[max(0, i - window) : i]][-20:]
        if not all(map(math.isfinite, recent)):
            continue  # another cause reports these values
        spread = max(statistics.pstdev(recent), 1e-3)
        rise = points[i][1] - statistics.fmean(recent)
        if rise > k * spread:
            rises.append((points[i][0], rise))
    return rises


def same_batch(view: HistoryView) -> Candidate | None:
    """A batch whose rows are those of the batch before, update after update.

    If they come in another order, a loader does draw anew: there are no other rows.
    """
    mark = view.often("same_rows", limit("DAT001", "share"))
    if mark is None:
        return None
    key = "DAT001/seen" if all(mark.values) else "DAT001/few"
    # drawn answers are learnt from in several passes (PPO), until others are drawn
    is_drawn_anew = view.facts.on_rewards and mark.share < 1
    return suspect_mark(key, mark, severity="note" if is_drawn_anew else None)


def other_vocabularies(view: HistoryView) -> Candidate | None:
    """Batches whose frequent ids are frequent in no other batch.

    A loss also falls to that of a vocabulary whose unused ids are known.
    """
    mark = view.often("unlike", limit("DAT031", "share"))
    if mark is None or mark.n_seen < limit("DAT031", "batches"):
        return None
    if view.goes_well and (mark.share < 1 or mark.n_seen < limit("DAT031", "more")):
        return None
    return suspect_mark("DAT031", mark) if view.updates >= limit("DAT031", "few") else None


def few_rows(view: HistoryView) -> Candidate | None:
    """Rows that each came many times before, in a training from new weights."""
    mark = view.history.marks.get("known_rows")
    if mark is None or mark.n_seen < limit("UPD003", "times"):
        return None
    repetitions = statistics.median(mark.values[-5:])
    # rows came as often in the updates that were not looked at
    times = repetitions * max(1.0, mark.steps[-1] / mark.n_seeable)
    if times < limit("DAT021", "times") or repetitions < limit("DAT021", "seen"):
        return None
    severity = None if view.fresh else "note"
    return suspect("DAT021", times=times, step=mark.first, severity=severity)


def few_pairs(view: HistoryView) -> Candidate | None:
    """Pairs of answers that came again and again while the ledger looked."""
    mark = view.history.marks.get("known_rows")
    if mark is None or mark.n_seen < limit("UPD003", "times") or not view.facts.on_preferences:
        return None
    repetitions = statistics.median(mark.values[-3:])
    times = repetitions * view.updates / mark.n_seeable
    if times < limit("DAT021", "times") or repetitions < limit("DAT021", "pairs"):
        return None
    return suspect(
        "DAT021/pairs",
        repetitions=repetitions,
        times=times,
        n=mark.n_seeable,
        of=view.updates,
        step=mark.first,
    )


def same_masks(view: HistoryView) -> Candidate | None:
    """Masks at the same places of other rows."""
    mark = view.often("same_masks", limit("DAT023", "share"))
    rows = view.history.marks.get("same_rows")
    if mark is None or mark.n_seen < limit("DAT023", "updates"):
        return None
    if rows is not None and rows.n_seen:
        return None  # a batch that comes again has its masks again
    return suspect_mark("DAT023", mark)


def one_class(view: HistoryView) -> Candidate | None:
    """Batches whose rows all have one class."""
    mark, share = view.history.marks.get("one_class"), limit("DAT022", "share")
    if mark is None or mark.n_seeable < limit("DAT022", "batches") or mark.share < share:
        return None
    counts = Counter(mark.values).most_common()
    key = "DAT022" if len(counts) == 1 else "DAT022/sorted"
    if len(counts) > 1 and counts[1][1] < limit("DAT022", "rarest") * len(mark.values):
        return None  # a rare class
    if len(counts) == 1 and (mark.share < 1 or mark.n_seen < limit("DAT022", "alone")):
        return None
    return suspect_mark(key, mark, value=counts[0][0])


def at_chance(view: HistoryView) -> Candidate | None:
    """A loss of classes that stays where guessing is, although weights move."""
    readings, start, end = view.readings("targets.classes"), view.start, view.end
    update = view.usual("update.ratio", after=view.warm_up_end)
    if not readings or start is None or end is None or not view.facts.betas:
        return None
    if view.updates - view.warm_up_end < limit("DAT009", "updates") or not view.quarters:
        return None
    if not all(map(math.isfinite, view.losses)):
        return None  # another cause reports these values
    guessing = math.log(max(1.0, readings[0].value))
    below = guessing - min(*view.quarters, end)
    is_moving = update is not None and update > limit("DAT009", "update")
    if below > limit("DAT009", "chance") or not is_moving:
        return None
    return suspect(
        "DAT009/classes",
        end=end,
        classes=readings[0].value,
        guessing=guessing,
        below=below,
        update=update,
        step=view.updates,
        severity=None if view.updates - view.warm_up_end >= limit("DAT009", "long") else "note",
    )


def known_answers(view: HistoryView) -> Candidate | None:
    """First losses of tokens near 0: the answers stand in the inputs, or were learnt before."""
    least = int(limit("LOG016", "rows"))
    early = view.losses[:least]
    if len(early) < least or view.steps[least - 1] > 2 * least:
        return None
    if view.facts.on_preferences or view.facts.on_rewards or view.guessing is None:
        return None
    level = statistics.median(early)
    if any(value > limit("LOG016", "nats") for _, value in view.history.held_out):
        return None  # answers that stand in the inputs would be known in held-out rows too
    return suspect("LOG016", first=level, step=1) if 0 < level < limit("LOG016", "nats") else None


CAUSES: tuple[Cause, ...] = (
    known_answers,
    same_batch,
    other_vocabularies,
    few_rows,
    few_pairs,
    one_class,
    same_masks,
    at_chance,
    only_frequencies,
    too_good,
    Comparison(
        "DAT001/history", "batch.repeats", (">=", 2), n=1, further={"loss": lambda view: view.end}
    ),
    bad_batch,
    Comparison("DAT012", "batch.repetitive", (">", "share"), n=2),
    Comparison("DAT010", "facts.batch_tokens", ("<", "tokens")),
)
