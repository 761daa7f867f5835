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
    update = view.last("update.ratio")
    if view.steps_vanish or (update is not None and update < limit("DAT009", "update")):
        return None  # so small steps lead nowhere
    tied = view.first("targets.tied")
    if tied is not None and tied > limit("DAT009", "tied"):
        return None  # inputs tell of their targets: it is the model that has not learnt it yet
    is_masked = bool(view.readings("call.right"))
    if (
        tied is None
        and is_masked
        and (view.first("targets.counted") or 0.0) < limit("DAT009", "most")
    ):
        return None  # masked models stay there for long, and so few tokens do not tell
    ratio = view.usual("gradient.depth_ratio")
    reaches_all = ratio is None or ratio > limit("ARC002", "depth_ratio")
    # trained weights know more than frequencies: answers may cost them as much by chance
    is_note = view.has_trained_norms and view.facts.has_prompts
    return suspect(
        "DAT009",
        0.8 if reaches_all else 0.4,
        end=end,
        unigram=unigram,
        above=end - unigram,
        ratio=ratio,
        step=view.updates,
        severity="note" if is_note else None,
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
    early_points = [point for point in view.history.losses if point[0] <= limit("DAT011", "tokens")]
    early = [loss for _, loss in early_points]
    is_fast = (
        bigram is not None
        and start is not None
        and view.fresh  # a trained model may know such text already
        and start > bigram
        and len(early) >= 10
        and abs(min(early)) < limit("DAT011", "share") * bigram  # near 0, and not far below it
    )
    is_other_loss = bigram is None and view.first("targets.nats") is not None
    if is_other_loss:
        return None  # the loss is not -log p of its targets
    if not is_fast and (gap is None or gap.value < limit("DAT011", "below")):
        return None
    severity = "note" if _is_known_sound(view) else None
    lowest_step, lowest = min(early_points, key=lambda point: point[1], default=(0, 0.0))
    return suspect("DAT011", lowest=lowest, updates=lowest_step, step=step, severity=severity)


def _is_known_sound(view: HistoryView) -> bool:
    """Whether the loop's call shows no later tokens and pays for the next ones, of new rows.

    Then a small loss is no leak: rules, such as sums and copies, are learnt as fast.
    """
    marks, follows = view.history.marks, view.history.marks.get("follows")
    pays_next = follows is not None and 0 < follows.n_seen == follows.n_seeable
    is_causal = view.first("call.future") == 0 and not view.first("targets.unmoved")
    same_rows, known_rows = marks.get("same_rows"), marks.get("known_rows")
    is_new = same_rows is not None and not same_rows.n_seen
    return pays_next and is_causal and is_new and (known_rows is None or not known_rows.n_seen)


def bad_batch(view: HistoryView) -> Candidate | None:
    """A single jump of the loss that comes back."""
    large = [(step, rise) for step, rise in jumps(view) if rise > limit("DAT008", "jump")]
    spikes = [step for step, rise in large if _ends_at_once(view, step, rise)]
    if not spikes or view.history.stopped is not None or not view.goes_well:
        return None
    if view.facts.on_rewards:
        return None  # the loss of a policy is no loss of text
    # a trained model guesses worse than at random, and worse than ever before, if the batch is no
    # text at all; one such batch is harmless, and two may be torn weights
    worst = max(loss for step, loss in view.history.losses if step < spikes[0])
    worst = max(worst, view.guessing or math.inf)
    n_foreign = sum(loss > worst for step, loss in view.history.losses if step >= spikes[0])
    is_foreign = n_foreign >= limit("DAT008", "foreign")
    return suspect(
        "DAT008",
        0.7 if is_foreign else 0.5,
        steps=", ".join(map(str, spikes[:3])),
        guessing="; for some updates it was worse than guessing" if is_foreign else "",
        n=len(spikes),
        step=spikes[0],
        severity="warn" if is_foreign else None,
    )


def _ends_at_once(view: HistoryView, step: int, rise: float) -> bool:
    """Whether a jump of the loss ends with its batch: it falls by half of the jump in one update.

    Weights that a large update has torn need many updates to come back, or come back faster and
    faster. Foreign batches are learnt slower and slower, and then the text is as before.
    """
    losses = [loss for s, loss in view.history.losses if s >= step]
    high = losses[0] - rise / 2
    n = next((i for i, loss in enumerate(losses) if loss < high), len(losses) - 1)
    falls = [losses[i] - losses[i + 1] for i in range(n)]
    if max(falls, default=rise) < rise / 2:
        return False
    slow_falls = falls[:-1]
    speeds_up = len(slow_falls) > 1 and slow_falls[-1] == max(slow_falls)
    return not (speeds_up and slow_falls[-1] > limit("DAT008", "speed") * rise)


def jumps(view: HistoryView) -> list[tuple[int, float]]:
    """The updates with a loss far above the window before them, and the rise of each."""
    window, k = int(limit("DAT008", "window")), limit("DAT008", "deviations")
    points, rises = view.history.losses, list[tuple[int, float]]()
    for i in range(window, len(points)):
        recent = [v for _, v in points[i - window : i]]
        if not all(map(math.isfinite, recent)):
            continue  # another cause reports these values
        spread = max(statistics.pstdev(recent), 1e-3)
        rise = points[i][1] - statistics.fmean(recent)
        if rise > k * spread:
            rises.append((points[i][0], rise))
    return rises


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


def labels_from_one(view: HistoryView) -> Candidate | None:
    """No row of the first class, and many of each other; a note unless labels are left out."""
    rows, ignored = view.readings("targets.none_first"), view.last("targets.unclassed")
    if not rows or rows[-1].value < limit("DAT038", "rows"):
        return None
    is_cut = ignored is not None and ignored > limit("DAT038", "ignored")
    return suspect(
        "DAT038",
        rows=rows[-1].value,
        ignored=ignored or 0.0,
        step=rows[-1].step,
        severity=None if is_cut else "note",
    )


def known_answers(view: HistoryView) -> Candidate | None:
    """First losses of tokens near 0: the answers stand in the inputs, or were learnt before."""
    least = int(limit("LOG016", "rows"))
    early = view.losses[:least]
    if len(early) < least or view.steps[least - 1] > 2 * least:
        return None
    nats = view.first("targets.nats") or 0.0
    if view.facts.on_preferences or view.facts.on_rewards or view.guessing is None:
        return None
    if nats > limit("LOG016", "nats"):
        return None  # the gradient names targets that are not known: the loss has other terms
    level = statistics.median(early)
    if any(value > limit("LOG016", "nats") for _, value in view.history.held_out):
        return None  # answers that stand in the inputs would be known in held-out rows too
    return suspect("LOG016", first=level, step=1) if 0 < level < limit("LOG016", "nats") else None


def no_labels(view: HistoryView) -> Candidate | None:
    """Losses of NaN whose gradients are all 0: a mean over no labels is 0 / 0."""
    mark, n = view.history.marks.get("blank"), len(view.losses)
    if mark is None or min(mark.share, view.nan_share) < limit("LOS011", "share"):
        return None
    times = round(view.nan_share * n)
    return suspect_mark("LOS011/updates", mark, times=times, n=n, step=view.steps[0])


CAUSES: tuple[Cause, ...] = (
    no_labels,
    known_answers,
    one_class,
    labels_from_one,
    same_masks,
    only_frequencies,
    too_good,
    bad_batch,
    Comparison("DAT012", "batch.repetitive", (">", "share"), n=2),
    Comparison("DAT010", "facts.batch_tokens", ("<", "tokens")),
)
