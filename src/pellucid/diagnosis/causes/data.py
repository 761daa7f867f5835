"""Causes in data and labels, as far as curves show them."""

from __future__ import annotations

import math
import statistics

from pellucid.diagnosis.causes.candidate import Candidate, Cause, Comparison
from pellucid.diagnosis.causes.history_view import HistoryView, clue
from pellucid.diagnosis.finding import limit


def only_frequencies(view: HistoryView) -> Candidate | None:
    """A plateau at the entropy of single tokens, with gradients that reach all blocks.

    {no residual, post-norm, shuffled labels, corrupted inputs}: the first two are told by the
    frame and by gradients that vanish; between the last two only the data can tell.
    """
    unigram, end = view.facts.unigram, view.end
    if unigram is None or end is None or not view.at_frequencies:
        return None
    if view.updates - view.warm_up_end < limit("DAT009", "updates"):
        return None
    if not view.facts.betas or not _early(view, unigram):
        return None  # a slow training stays there for long, and leaves it
    ratio = view.usual("gradient.depth_ratio")
    reach = ratio is None or ratio > limit("ARC002", "depth_ratio")
    return Candidate(
        code="DAT009",
        likely=0.8 if reach else 0.4,
        what=f"The loss stays at {end:.3g}; frequencies of single tokens alone give {unigram:.3g}.",
        clues=clue("DAT009", "loss, of single tokens' entropy", end - unigram)
        + clue("DAT009", "gradient.depth_ratio", ratio),
        where="data",
        step=view.updates,
        rivals=() if reach else ("ARC012",),
    )


def _early(view: HistoryView, unigram: float) -> bool:
    """Whether the loss was there after a third of the way: it has stood ever since."""
    n = len(view.losses) // 3
    window = view.losses[n : n + 10]
    early_loss = statistics.fmean(window) if window else 0.0
    return abs(early_loss - unigram) < limit("DAT009", "above") or early_loss < unigram


def too_good(view: HistoryView) -> Candidate | None:
    """A loss that falls far below what pairs of tokens tell, before it can."""
    below = view.highest("loss.below_bigram", last_step=50)
    bigram, start = view.facts.bigram, view.start
    early = [v for s, v in view.history.losses if s <= limit("DAT011", "tokens")]
    fast = (
        bigram is not None
        and start is not None
        and not view.facts.pretrained
        and start > bigram
        and len(early) >= 10
        and min(early) < limit("DAT011", "share") * bigram
    )
    if not fast and (below is None or below.value < limit("DAT011", "below")):
        return None
    return Candidate(
        code="DAT011",
        likely=0.7,
        what=f"The loss fell to {min(early, default=0):.2g} within {len(early)} updates.",
        clues=clue("DAT011", "loss", min(early, default=0.0)),
        where="labels, mask or loader",
        step=int(limit("DAT011", "tokens")),
        rivals=("LOS001", "ATT001", "DAT001"),
    )


def bad_batch(view: HistoryView) -> Candidate | None:
    """A jump that comes alone and goes by itself."""
    spikes = [step for step, by in jumps(view) if by > limit("DAT008", "jump")]
    if not spikes or view.history.stopped is not None or not view.goes_well:
        return None
    since_spike = [loss for step, loss in view.history.losses if step >= spikes[0]]
    # a model that has learnt something guesses worse than at random only where text is no text;
    # one such batch is harmless
    foreign = view.guessing is not None and sum(v > view.guessing for v in since_spike) >= 2
    return Candidate(
        code="DAT008",
        likely=0.7 if foreign else 0.5,
        severity="warn" if foreign else None,
        what=f"The loss jumped at update {', '.join(map(str, spikes[:3]))} and came back"
        + ("; for some updates it was worse than guessing." if foreign else "."),
        clues=clue("DAT008", "jumps", len(spikes)),
        where=f"batch of update {spikes[0]}",
        step=spikes[0],
        rivals=("OPT008", "OPT005"),
    )


def jumps(view: HistoryView) -> list[tuple[int, float]]:
    """Updates whose loss is far above the window before, with how far."""
    window, k = int(limit("DAT008", "window")), limit("DAT008", "deviations")
    points, jumped = view.history.losses, list[tuple[int, float]]()
    for i in range(20, len(points)):
        recent = [v for _, v in points[max(0, i - window) : i]][-20:]
        if not all(map(math.isfinite, recent)):
            continue  # of what is not finite, another cause
        spread = max(statistics.pstdev(recent), 1e-3)
        by = points[i][1] - statistics.fmean(recent)
        if by > k * spread:
            jumped.append((points[i][0], by))
    return jumped


CAUSES: tuple[Cause, ...] = (
    only_frequencies,
    too_good,
    Comparison(
        code="DAT001",
        number="batch.repeats",
        rule=(">=", 2),
        likely=0.97,
        what="Up to update {step}, every batch that was looked at was the same.",
        n=1,
        also={"loss": lambda view: view.end},
        where="loader",
    ),
    bad_batch,
    Comparison(
        code="DAT012",
        number="batch.repetitive",
        rule=(">", "share"),
        likely=0.9,
        what="{value:.0%} of the rows of update {step} repeat a few tokens.",
        n=2,
        where="texts",
        rivals=("DAT008", "FIT001"),
    ),
    Comparison(
        code="DAT010",
        number=lambda view: view.facts.batch_tokens,
        rule=("<", "tokens"),
        likely=0.5,
        what="An update learns from {value} tokens.",
        label="tokens in an update",
        where="training.batch_size",
        step=0,
    ),
)
