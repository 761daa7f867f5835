"""What may be behind a history: causes, each a small function from a course to a suspect.

Comes in: the course of a training. Goes out: every suspect. How they are weighed against each other
is told in `pellucid.diagnosis.diagnose`.
"""

from pellucid.diagnosis.causes import (
    architecture,
    data,
    decay,
    fit,
    numbers,
    objective,
    optimiser,
    policy,
    rates,
    smells,
    starts,
)
from pellucid.diagnosis.causes.course import Course
from pellucid.diagnosis.causes.suspect import Cause, Suspect
from pellucid.diagnosis.unseen import Asking

CAUSES: tuple[Cause, ...] = (
    *architecture.CAUSES,
    *starts.CAUSES,
    *rates.CAUSES,
    *optimiser.CAUSES,
    *decay.CAUSES,
    *numbers.CAUSES,
    *objective.CAUSES,
    *data.CAUSES,
    *fit.CAUSES,
    *policy.CAUSES,
    *smells.CAUSES,
)


def suspects(course: Course, asking: Asking | None = None) -> list[Suspect]:
    """Every cause that fits the course; one that raises does not lose the others."""
    ask = asking or Asking()
    return [suspect for cause in CAUSES if (suspect := ask(cause, course)) is not None]


__all__ = ["CAUSES", "Cause", "Course", "Suspect", "suspects"]
