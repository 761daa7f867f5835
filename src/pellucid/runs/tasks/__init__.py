"""What each objective is fed with, how it is judged, and what is said of it before it starts."""

from pellucid.runs.tasks.assemble import assemble_task
from pellucid.runs.tasks.task import Given, Reward, Task

__all__ = ["Given", "Reward", "Task", "assemble_task"]
