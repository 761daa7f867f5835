"""Causes in learning rate and warm-up: too high, too sudden, too low, zero."""

from __future__ import annotations

from pellucid.diagnosis.causes.candidate import Candidate
from pellucid.diagnosis.causes.history_view import HistoryView, clue
from pellucid.diagnosis.finding import Evidence, limit


def too_high(view: HistoryView) -> Candidate | None:
    """Updates that move weights by far too much, and what runs away because of it."""
    signs = runaway(view)
    hurt = hurts(view)
    moved = view.lasting("update.ratio", lambda v: v > limit("OPT005", "update"))
    diverged = view.history.stopped is not None or (view.rose or 0) > limit("OPT005", "rise")
    if len(signs) < (1 if diverged or moved is not None else 2):
        return None
    sudden = starts_hot(view)
    likely = min(0.95, 0.5 + 0.1 * len(signs) + (0.15 if hurt else 0) - (0.25 if sudden else 0))
    return Candidate(
        code="OPT005",
        likely=likely,
        what=f"At a learning rate of {view.rate or 0:.3g}, " + "; ".join(w for w, _ in signs) + ".",
        clues=tuple(evidence for _, e in signs for evidence in e),
        where="optimiser.learning_rate",
        step=_since(view),
        severity=None if hurt or len(signs) > 2 else "warn",
        rivals=("OPT006",) if sudden else (),
    )


def no_warm_up(view: HistoryView) -> Candidate | None:
    """A first update that tears up what was drawn, and a rate that may do afterwards."""
    if not starts_hot(view):
        return None
    first = view.first("update.ratio")
    later = view.usual("update.ratio", after=view.updates // 2)
    calm = later is not None and later < limit("OPT005", "far")
    return Candidate(
        code="OPT006",
        likely=0.8 if calm else 0.6,
        what="The first update, at full rate, moved the middle matrix by "
        f"{first or 0:.0%} of its size.",
        clues=clue("OPT006", "update.ratio, first", first)
        + clue("OPT006", "warm-up", view.facts.warmup_steps),
        where="schedule.warm_up",
        step=1,
        rivals=() if calm else ("OPT005",),
    )


def too_low(view: HistoryView) -> Candidate | None:
    """Weights that hardly move at steps of full size, and little learnt."""
    settled = view.warm_up_end
    moved = view.usual("update.ratio", after=settled)
    step = view.usual("update.effective_step", after=settled)
    least = limit("OPT007", "update")
    little = view.learnt is not None and view.learnt < limit("OPT007", "learnt")
    little = little or view.above_frequencies
    if moved is None or moved > least or not little or view.updates < settled + 20:
        return None
    if not view.fresh or (view.rose or 0) > limit("OPT005", "rise"):
        return None
    if step is not None and step < limit("OPT007", "step"):
        return None
    return Candidate(
        code="OPT007",
        likely=0.9 if moved < least / 2 else 0.7,
        what=f"An update moves the middle matrix by {moved:.1e} of its size, with steps that are "
        "as large as the learning rate allows.",
        clues=clue("OPT007", "update.ratio", moved)
        + clue("OPT007", "update.effective_step", step)
        + clue("OPT007", "learning rate", view.rate),
        where="optimiser.learning_rate",
        step=settled,
    )


def zero_for_good(view: HistoryView) -> Candidate | None:
    """A rate of exactly 0 over the last fifth of what was recorded, or all of it."""
    rates = view.history.rates
    least = max(10, round(limit("OPT013", "share") * view.updates))
    zero = [step for step, value in rates if value == 0]
    if len(rates) < 2 or not zero or rates[-1][1] != 0:
        return None
    since = next(step for step, _ in rates if all(v == 0 for s, v in rates if s >= step))
    if view.updates - since < least:
        return None
    return Candidate(
        code="OPT013",
        likely=0.97,
        what=f"The learning rate is 0 from update {since} to {view.updates}.",
        clues=clue("OPT013", "learning rate", 0.0),
        where="schedule",
        step=since,
    )


def starts_hot(view: HistoryView) -> bool:
    """Whether the first update moved the weights by much, at the full rate."""
    first, warm = view.first("update.ratio"), view.facts.warmup_steps
    rates = view.history.rates
    full = warm is not None and warm <= 3
    full = full or (len(rates) > 1 and rates[0][0] <= 2 and rates[0][1] >= 0.5 * (view.rate or 0))
    small = (view.first("norm.variance_over_eps") or 100) < limit("INI006", "variance")
    return full and first is not None and first > limit("OPT006", "first") and not small


def runaway(view: HistoryView) -> list[tuple[str, tuple[Evidence, ...]]]:
    """What runs away: in words, with evidence."""
    runaways: list[tuple[str, tuple[Evidence, ...]]] = []

    def add(words: str, sign: str, value: float) -> None:
        runaways.append((words, clue("OPT005", sign, value)))

    largest_update = view.highest("update.ratio")
    if largest_update is not None and largest_update.value > limit("OPT005", "first"):
        add(
            f"one update moved weights by {largest_update.value:.0%} of their size",
            "update.ratio",
            largest_update.value,
        )
    score, first = view.highest("attention.max_logit"), view.first("attention.max_logit")
    if score and first is not None and score.value > max(limit("OPT005", "score"), 10 * first):
        add(
            f"scores rose from {first:.2g} to {score.value:.3g}", "attention.max_logit", score.value
        )
    size = view.growth("stream.size")
    loud = view.highest("stream.size")
    if size and loud and size > limit("OPT005", "stream") and loud.value > 5:
        add(f"the stream grew {size:.0f} times as large", "stream.size", size)
    kl = view.highest("update.kl_forward")
    if kl is not None and kl.value > limit("OPT005", "kl"):
        add("one update changed the predictions altogether", "update.kl_forward", kl.value)
    return runaways


def hurts(view: HistoryView) -> bool:
    """Whether the loss diverged, rose again, or never came down."""
    if view.history.stopped is not None:
        return True
    rose, learnt = view.rose, view.learnt
    up = rose is not None and rose > limit("OPT005", "rise")
    none = learnt is not None and learnt < 0.1 and view.updates >= 50
    return up or none or view.at_frequencies


def _since(view: HistoryView) -> int | None:
    largest_update = view.highest("update.ratio")
    return None if largest_update is None else largest_update.step


CAUSES = (too_high, no_warm_up, too_low, zero_for_good)
