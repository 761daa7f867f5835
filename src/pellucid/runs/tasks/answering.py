"""Answering prompts: the tokens of answers are learnt, those of prompts are seen.

Comes in: prepared conversations. Goes out: a task. It does not know how prompts and answers were
told apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from pellucid import config
from pellucid.batches import TokenBatch
from pellucid.examples import Answers, Bucketed, Examples, Packed, in_turn
from pellucid.objectives import assemble
from pellucid.runs.example import example_of
from pellucid.runs.tasks.asking import Asking
from pellucid.runs.tasks.judging import judged, some_of
from pellucid.runs.tasks.read import facts_of_examples
from pellucid.runs.tasks.task import Fact, Given, Task
from pellucid.training import HeldOut, Precision


def answering(given: Given) -> Task:
    """Conversations, packed or of about the same length; judged by nats per token of answers."""
    run, data = given.run, given.examples
    assert isinstance(run.objective, config.SupervisedFineTuning)
    length, pad_id = run.model.context_length, given.tokenizer.end_id
    collation = Answers(pad_id=pad_id, longest=length)
    objective = assemble(run.objective)
    order: Packed | Bucketed[TokenBatch]
    if run.objective.packed:
        order = Packed(data.train, context_length=length, pad_id=pad_id, seed=run.seed)
    else:
        rows = run.training.batch_size
        order = Bucketed(data.train, collation, rows_at_once=rows, seed=run.seed)

    def judge(side: Examples, precision: Precision) -> HeldOut:
        batches = in_turn(side, collation, run.training.batch_size)
        return judged(objective, given.model, batches, precision, unit="tokens")

    asking = Asking(given)
    few = some_of(data.held_out, "ids", run.training.evaluate_tokens)
    return Task(
        objective=objective,
        batch=order.batch,
        rows_per_epoch=order.rows_per_epoch,
        tokens_per_row=order.tokens_per_row,
        evaluate=lambda precision: judge(few, precision),
        sample=lambda step: asking.answered(_prompt(few), step),
        guessing_nats=math.log(run.model.rows),
        facts=(*facts_of_examples(given), *_packing(order)),
        example=example_of(order.batch(0, 1), given.tokenizer.decode),
        judge=judge,
    )


def _prompt(examples: Examples) -> list[int]:
    """What stands before the first answer in the first of `examples`."""
    ids, supervised = (examples.columns[name][0].tolist() for name in ("ids", "supervised"))
    return ids[: supervised.index(1)] if 1 in supervised else ids


def _packing(order: Packed | Bucketed[TokenBatch]) -> Iterator[Fact]:
    if isinstance(order, Packed):
        yield "packed", f"{order.rows_per_epoch:,} rows, {order.filled:.1%} of them filled"
