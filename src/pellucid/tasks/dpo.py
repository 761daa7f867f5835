"""Making the chosen of two answers likelier than the rejected one.

Comes in: prepared preferences. Goes out: a task. It does not know who preferred.
"""

from __future__ import annotations

import math
from dataclasses import replace

from pellucid.data import BucketedBatches, Examples, TwoAnswers
from pellucid.objectives import assemble
from pellucid.tasks.data_summary import facts_of_examples
from pellucid.tasks.example_view import example_of, spelled
from pellucid.tasks.held_out_loss import judge_by, some_of
from pellucid.tasks.prompt_sample import Asking
from pellucid.tasks.reference import copied, reference_of
from pellucid.tasks.rollouts import Drawer
from pellucid.tasks.task import Task, TaskInputs
from pellucid.training import HeldOut, Precision


def preferring(given: TaskInputs) -> Task:
    """Pairs of about the same length; judged by nats per pair, and how often the chosen wins.

    How far the model has moved is measured on answers of its own: given ones tell no KL.
    """
    run, data, tokenizer = given.run, given.examples, given.tokenizer
    collation = TwoAnswers(pad_id=tokenizer.end_id, longest=run.model.context_length)
    reference = reference_of(given)
    objective = assemble(run.objective, reference=reference)
    rows = run.training.batch_size
    order = BucketedBatches(data.train, collation, rows_at_once=rows, seed=run.seed)

    by_pairs = judge_by(given, objective, collation, "pairs")

    def judge(side: Examples, precision: Precision) -> HeldOut:
        held_out = by_pairs(side, precision)
        answers = (side.columns[name].lengths.max() for name in ("chosen", "rejected"))
        kl = drawer.kl_of(side, rows, int(max(answers)), precision)
        return replace(held_out, measures={**held_out.measures, "kl_exact": kl})

    drawer = Drawer(given.model, tokenizer, reference, temperature=1.0, seed=run.seed)
    asking = Asking(given)
    few = some_of(data.held_out, "chosen", run.training.evaluate_tokens)
    return Task(
        objective=objective,
        batch=order.batch,
        rows_per_epoch=order.rows_per_epoch,
        tokens_per_row=order.tokens_per_row,
        evaluate=lambda precision: judge(few, precision),
        sample=lambda step: asking.answered(few.columns["prompt"][0].tolist(), step),
        guessing_nats=math.log(2),
        unit="pairs",
        facts=facts_of_examples(given),
        asked=copied(given),
        example=example_of(order.batch(0, 1), spelled(tokenizer)),
        judge=judge,
    )
