"""Causes in what a loss over pairs compares, as its first gradient shows."""

from __future__ import annotations

from pellucid.diagnosis.causes.candidate import Candidate, Cause, suspect
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.finding import limit


def swapped_answers(view: HistoryView) -> Candidate | None:
    """Pairs whose raised answer comes second, or is the one that the model would not write.

    The first rows show both. Tools put chosen answers first; a loop that does not is sound if the
    model finds its raised answers no stranger.
    """
    first, n = view.first("answers.first"), view.first("answers.pairs")
    stranger, gap = view.first("answers.stranger"), view.first("answers.gap") or 0.0
    if first is None or n is None or not view.facts.on_preferences:
        return None
    is_strange = stranger is not None and stranger >= limit("PRF004", "stranger")
    if is_strange and gap >= limit("PRF004", "gap"):
        return suspect("PRF004/stranger", share=stranger, gap=gap, n=n, step=0)
    if first > 1 - limit("PRF004", "stranger") or gap < -limit("PRF004", "gap"):
        return None
    return suspect("PRF004/order", first=first, n=n, step=0)


def crossed_pairs(view: HistoryView) -> Candidate | None:
    """Answers that are compared with answers to other prompts, and raised with their own rivals."""
    split, n = view.first("answers.split"), view.first("answers.pairs")
    if split is None or split < limit("PRF009", "split") or not view.facts.on_preferences:
        return None
    return suspect("PRF009", share=split, n=n, step=0)


def two_units(view: HistoryView) -> Candidate | None:
    """Pairs that set the sum of one answer's log P against the mean of the other's."""
    if not view.first("answers.units") or not view.facts.on_preferences:
        return None
    return suspect("PRF010", value=1.0, step=0)


def told_by_length(view: HistoryView) -> Candidate | None:
    """Pairs whose chosen answer is always the longer one, or always the shorter one.

    It is a note, unless the pairs are soon told apart.
    """
    longer, n = view.first("answers.longer"), view.first("answers.pairs")
    if longer is None or n is None or n < limit("PRF008", "pairs"):
        return None
    share = max(longer, 1 - longer)
    if not view.facts.on_preferences or share < limit("PRF008", "share"):
        return None
    is_decided = view.end is not None and view.end < limit("PRF008", "loss")
    return suspect(
        "PRF008",
        share=share,
        n=n,
        side="chosen" if longer >= share else "rejected",
        loss=view.end,
        step=0,
        severity="warn" if is_decided else None,
    )


CAUSES: tuple[Cause, ...] = (swapped_answers, crossed_pairs, two_units, told_by_length)
