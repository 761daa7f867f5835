"""Predicting what a teacher predicts.

Comes in: prepared text, and a teacher's run. Goes out: a task. It does not know how the teacher was
trained.
"""

from __future__ import annotations

from dataclasses import replace

from pellucid.counting import parameter_count
from pellucid.display.numbers import short
from pellucid.objectives import assemble
from pellucid.tasks.next_token import reading_on
from pellucid.tasks.task import Task, TaskInputs
from pellucid.tasks.teacher import teacher_of


def distilling(given: TaskInputs) -> Task:
    """Windows of a text, as without a teacher; judged by the text alone, as any language model."""
    teacher = teacher_of(given)
    plain = reading_on(given, assemble(given.run.objective, teacher=teacher.model))
    size = sum(parameter.numel() for parameter in teacher.model.parameters())
    description = f"{short(size)} parameters, {_share(given, size)}, SHA-256 {teacher.sha256[:12]}"
    return replace(
        plain,
        facts=(*plain.facts, ("teacher", description)),
        asked=size,
    )


def _share(task_inputs: TaskInputs, size: int) -> str:
    return f"{size / parameter_count(task_inputs.run.model):.1f} times the student's"
