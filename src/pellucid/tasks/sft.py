"""Answering prompts: the tokens of answers are learnt, those of prompts are seen.

Comes in: prepared conversations. Goes out: a task. It does not know how prompts and answers were
told apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from pellucid import config
from pellucid.batches import TokenBatch
from pellucid.data import Answers, BucketedBatches, Examples, PackedBatches
from pellucid.generation import Beams
from pellucid.objectives import assemble
from pellucid.tasks.data_summary import facts_of_examples
from pellucid.tasks.example_view import example_of, spelled
from pellucid.tasks.generated_answers import written
from pellucid.tasks.held_out_loss import judge_by, some_of
from pellucid.tasks.prompt_sample import Asking
from pellucid.tasks.task import Fact, Task, TaskInputs, Written


def answering(given: TaskInputs) -> Task:
    """Conversations, packed or of about the same length; judged by nats per token of answers."""
    run, data = given.run, given.examples
    assert isinstance(run.objective, config.SFT)
    length, pad_id = run.model.context_length, given.tokenizer.end_id
    collation = Answers(pad_id=pad_id, longest=length)
    objective = assemble(run.objective)
    order: PackedBatches | BucketedBatches[TokenBatch]
    if run.objective.packed:
        order = PackedBatches(data.train, context_length=length, pad_id=pad_id, seed=run.seed)
    else:
        rows = run.training.batch_size
        order = BucketedBatches(data.train, collation, rows_at_once=rows, seed=run.seed)

    judge = judge_by(given, objective, collation, "tokens")
    asking = Asking(given)
    few = some_of(data.held_out, "ids", run.training.evaluate_tokens)
    return Task(
        objective=objective,
        batch=order.batch,
        rows_per_epoch=order.rows_per_epoch,
        tokens_per_row=order.tokens_per_row,
        evaluate=lambda precision: judge(few, precision),
        sample=lambda step: asking.answered(prompt_and_answer(few, 0)[0], step),
        guessing_nats=math.log(run.model.rows),
        facts=(*facts_of_examples(given), *_packing(order)),
        example=example_of(order.batch(0, 1), spelled(given.tokenizer)),
        judge=judge,
        write=lambda side, beams: answer(given, side, beams),
    )


def answer(given: TaskInputs, side: Examples, beams: Beams) -> list[Written]:
    """What the model answers where each conversation has its first answer."""
    pairs = [prompt_and_answer(side, place) for place in range(len(side))]
    return written(given, pairs, beams, reads=False)


def prompt_and_answer(examples: Examples, place: int) -> tuple[list[int], list[int]]:
    """The ids before the first answer, and those of that answer."""
    ids, supervised = (examples.columns[name][place].tolist() for name in ("ids", "supervised"))
    begin = supervised.index(1) if 1 in supervised else len(ids)
    tail = supervised[begin:]
    end = begin + (tail.index(0) if 0 in tail else len(tail))
    return ids[:begin], ids[begin:end]


def _packing(order: PackedBatches | BucketedBatches[TokenBatch]) -> Iterator[Fact]:
    if isinstance(order, PackedBatches):
        yield "packed", f"{order.rows_per_epoch:,} rows, {order.filled:.1%} of them filled"
