"""Causes of the faults in a history: rows of one comparison, and functions."""

from pellucid.diagnosis.causes import (
    architecture,
    bounds,
    call,
    chance,
    config_warnings,
    data,
    fit,
    initialisation,
    non_finite,
    objective,
    optimiser,
    pairing,
    policies,
    preferences,
    probabilities,
    ranks,
    rates,
    reference,
    repetition,
    rewards,
    schedules,
    small_steps,
    standstill,
    undecided,
    updates,
)
from pellucid.diagnosis.causes.candidate import Candidate, Cause, Comparison
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.not_examined import ProbeRunner
from pellucid.old_names import names_of as _names_of
from pellucid.old_words import take_old_words as _take_old_words

CAUSES: tuple[Cause, ...] = (
    *call.CAUSES,
    *probabilities.CAUSES,
    *architecture.CAUSES,
    *initialisation.CAUSES,
    *rates.CAUSES,
    *schedules.CAUSES,
    *standstill.CAUSES,
    *small_steps.CAUSES,
    *updates.CAUSES,
    *bounds.CAUSES,
    *optimiser.CAUSES,
    *non_finite.CAUSES,
    *objective.CAUSES,
    *repetition.CAUSES,
    *data.CAUSES,
    *chance.CAUSES,
    *fit.CAUSES,
    *reference.CAUSES,
    *preferences.CAUSES,
    *pairing.CAUSES,
    *rewards.CAUSES,
    *policies.CAUSES,
    *ranks.CAUSES,
    *config_warnings.CAUSES,
    *undecided.CAUSES,
)


def find_candidates(view: HistoryView, runner: ProbeRunner | None = None) -> list[Candidate]:
    """Every cause that fits the history; if one raises, the others still run."""
    run = runner or ProbeRunner()
    return [candidate for cause in CAUSES if (candidate := run(cause, view)) is not None]


__all__ = ["CAUSES", "Candidate", "Cause", "Comparison", "HistoryView", "find_candidates"]

_take_old_words(__name__, globals())
__getattr__ = _names_of(__name__)
