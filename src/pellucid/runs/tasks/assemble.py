"""The one door from a config to a task.

Comes in: what is given. Goes out: a `Task`. No other file of this folder asks which objective it
is.
"""

from __future__ import annotations

from typing import assert_never

from pellucid import config
from pellucid.runs.tasks.reading_on import reading_on
from pellucid.runs.tasks.task import Given, Task


def assemble_task(given: Given) -> Task:
    """What the objective of `given.run` is fed with, and how it is judged.

    Raises:
        PellucidError: the data do not suffice.
    """
    objective = given.run.objective
    match objective:
        case config.NextToken():
            return reading_on(given)
        case _:
            assert_never(objective)
