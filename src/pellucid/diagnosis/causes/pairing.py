"""Causes in what a loss over pairs compares, as its first gradient shows."""

from __future__ import annotations

from pellucid.diagnosis.causes.candidate import Candidate, Cause, suspect
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.finding import limit


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


CAUSES: tuple[Cause, ...] = (crossed_pairs, two_units)
