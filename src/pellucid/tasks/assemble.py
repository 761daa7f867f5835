"""From a config to the task of its objective. No other file of this room asks which one it is."""

from __future__ import annotations

from typing import assert_never

from pellucid import config
from pellucid.objectives import assemble as assemble_objective
from pellucid.tasks.classification import classification_task
from pellucid.tasks.distillation import distillation_task
from pellucid.tasks.dpo import dpo_task
from pellucid.tasks.mlm import mlm_task
from pellucid.tasks.next_token import next_token_task
from pellucid.tasks.policy_gradient import policy_gradient_task
from pellucid.tasks.seq2seq import seq2seq_task
from pellucid.tasks.sft import sft_task
from pellucid.tasks.span_corruption import span_corruption_task
from pellucid.tasks.task import Task, TaskInputs


def assemble_task(inputs: TaskInputs) -> Task:
    """The task of the objective of `inputs.run`.

    Raises:
        PellucidError: the data are too few.
    """
    objective = inputs.run.objective
    match objective:
        case config.NextToken():
            return next_token_task(inputs, assemble_objective(objective))
        case config.MLM():
            return mlm_task(inputs)
        case config.SpanCorruption():
            return span_corruption_task(inputs)
        case config.Seq2Seq():
            return seq2seq_task(inputs)
        case config.Classification():
            return classification_task(inputs)
        case config.SFT():
            return sft_task(inputs)
        case config.Distillation():
            return distillation_task(inputs)
        case config.DPO():
            return dpo_task(inputs)
        case config.PolicyGradient():
            return policy_gradient_task(inputs)
        case _:
            assert_never(objective)
