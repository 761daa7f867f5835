"""What each objective is fed with, how it is judged, and what is said of it before it starts."""

from pellucid.tasks.assemble import assemble_task
from pellucid.tasks.task import Reward, Task, TaskInputs, Written
from pellucid.tasks.teacher import check_teacher

__all__ = ["Reward", "Task", "TaskInputs", "Written", "assemble_task", "check_teacher"]
