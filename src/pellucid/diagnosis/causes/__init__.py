"""What may be behind a history: causes, each a small function from a course to a suspect.

Comes in: the course of a training. Goes out: every suspect. How they are weighed against each other
is told in `pellucid.diagnosis.diagnose`.
"""

from pellucid.diagnosis.causes import (
    architecture,
    config_warnings,
    data,
    decay,
    fit,
    initialisation,
    non_finite,
    objective,
    optimiser,
    post_training,
    rates,
)
from pellucid.diagnosis.causes.candidate import Candidate, Cause
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.not_examined import Asking
from pellucid.old_names import names_of as _names_of

CAUSES: tuple[Cause, ...] = (
    *architecture.CAUSES,
    *initialisation.CAUSES,
    *rates.CAUSES,
    *optimiser.CAUSES,
    *decay.CAUSES,
    *non_finite.CAUSES,
    *objective.CAUSES,
    *data.CAUSES,
    *fit.CAUSES,
    *post_training.CAUSES,
    *config_warnings.CAUSES,
)


def suspects(course: HistoryView, asking: Asking | None = None) -> list[Candidate]:
    """Every cause that fits the course; one that raises does not lose the others."""
    ask = asking or Asking()
    return [suspect for cause in CAUSES if (suspect := ask(cause, course)) is not None]


__all__ = ["CAUSES", "Candidate", "Cause", "HistoryView", "suspects"]

__getattr__ = _names_of(__name__)
