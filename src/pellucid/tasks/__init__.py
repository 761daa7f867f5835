"""The task of each objective: its batches, its evaluation, its samples, lines about its data.

Comes in: a config, a model and prepared data. Goes out: a `Task`.

Must not know: the loop.
"""

from pellucid.old_words import take_old_words as _take_old_words
from pellucid.tasks.assemble import assemble_task
from pellucid.tasks.distillation import check_teacher
from pellucid.tasks.task import GeneratedText, Reward, Task, TaskInputs

__all__ = ["GeneratedText", "Reward", "Task", "TaskInputs", "assemble_task", "check_teacher"]

_take_old_words(__name__, globals())
