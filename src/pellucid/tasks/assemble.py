"""The one door from a config to a task.

Comes in: what is given. Goes out: a `Task`. No other file of this folder asks which objective it
is.
"""

from __future__ import annotations

from typing import assert_never

from pellucid import config
from pellucid.objectives import assemble as assemble_objective
from pellucid.tasks.classification import classifying
from pellucid.tasks.distillation import distilling
from pellucid.tasks.dpo import preferring
from pellucid.tasks.mlm import uncorrupting, unmasking
from pellucid.tasks.next_token import reading_on
from pellucid.tasks.policy_gradient import rewarded
from pellucid.tasks.seq2seq import rewriting
from pellucid.tasks.sft import answering
from pellucid.tasks.task import Task, TaskInputs


def assemble_task(given: TaskInputs) -> Task:
    """What the objective of `given.run` is fed with, and how it is judged.

    Raises:
        PellucidError: the data do not suffice.
    """
    objective = given.run.objective
    match objective:
        case config.NextToken():
            return reading_on(given, assemble_objective(objective))
        case config.MLM():
            return unmasking(given)
        case config.SpanCorruption():
            return uncorrupting(given)
        case config.Seq2Seq():
            return rewriting(given)
        case config.Classification():
            return classifying(given)
        case config.SFT():
            return answering(given)
        case config.Distillation():
            return distilling(given)
        case config.DPO():
            return preferring(given)
        case config.PolicyGradient():
            return rewarded(given)
        case _:
            assert_never(objective)
