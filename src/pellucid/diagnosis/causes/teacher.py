"""Causes in the teacher of a distillation, as the first gradient of its student shows them."""

from __future__ import annotations

from pellucid.diagnosis.causes.candidate import Candidate, Cause, suspect
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.finding import limit


def _has_teacher(view: HistoryView) -> bool:
    """Whether targets are shares of several tokens, in a text that the model has not written."""
    single = view.first("targets.single")
    if single is None or single > limit("LOS002", "single") or view.first("answers.own"):
        return False
    return not view.facts.on_rewards and not view.facts.on_preferences


def foreign_teacher(view: HistoryView) -> Candidate | None:
    """A teacher that does not favour the tokens that follow: it reads or writes other ids."""
    taught = view.first("targets.taught")
    if taught is None or taught >= limit("LOS003", "taught") or not _has_teacher(view):
        return None
    return suspect("LOS003/teacher", taught=taught, step=0)


def late_teacher(view: HistoryView) -> Candidate | None:
    """A teacher whose favourites stand two places on: its rows were moved against the student's."""
    skipped = view.first("targets.skipped")
    if skipped is None or skipped > limit("LOS002", "share") or not _has_teacher(view):
        return None
    return suspect("LOS002/teacher", value=skipped, step=0)


CAUSES: tuple[Cause, ...] = (foreign_teacher, late_teacher)
