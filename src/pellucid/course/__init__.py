"""The course: the textbook's claims measured as experiments, and lessons with exercises.

Comes in: the name of an experiment or a lesson, a run or none. Goes out: a claim with its
measurement and verdict; questions computed from a run, and answers checked against `maths`.

Must not know: how its results are shown.
"""

from pellucid.course.exercises.grading import grade
from pellucid.course.exercises.types import Exercise, Verdict
from pellucid.course.lessons.lesson import Lesson, find_lesson

__all__ = ["Exercise", "Lesson", "Verdict", "find_lesson", "grade"]
