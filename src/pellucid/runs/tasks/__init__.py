"""What each objective is fed with, how it is judged, and what is said of it before it starts."""

from pellucid.runs.tasks.assemble import assemble_task
from pellucid.runs.tasks.task import Given, Reward, Task
from pellucid.runs.tasks.teachers import check_teacher

__all__ = ["Given", "Reward", "Task", "assemble_task", "check_teacher"]
