"""Writing a text while looking at another: translation, summaries, questions and answers.

Comes in: prepared pairs. Goes out: a task. It does not know languages.
"""

from __future__ import annotations

import math
from dataclasses import replace

from pellucid.data import BucketedBatches, Examples, TwoTexts
from pellucid.generation import Beams, encode
from pellucid.inference.sample import speak_after
from pellucid.objectives import assemble
from pellucid.tasks.data_summary import facts_of_examples
from pellucid.tasks.example_view import example_of, spelled
from pellucid.tasks.generated_answers import written
from pellucid.tasks.held_out_loss import judge_by, some_of
from pellucid.tasks.task import Task, TaskInputs, Written
from pellucid.training import Sampled


def rewriting(given: TaskInputs) -> Task:
    """Pairs of about the same length; judged by nats per token of the targets."""
    run, data, tokenizer = given.run, given.examples, given.tokenizer
    collation = TwoTexts(
        pad_id=tokenizer.end_id, longest=run.model.context_length, start_id=tokenizer.begin_id
    )
    objective = assemble(run.objective)
    rows = run.training.batch_size
    order = BucketedBatches(data.train, collation, rows_at_once=rows, seed=run.seed)

    judge = judge_by(given, objective, collation, "tokens")
    few = some_of(data.held_out, "target", run.training.evaluate_tokens)
    return Task(
        objective=objective,
        batch=order.batch,
        rows_per_epoch=order.rows_per_epoch,
        tokens_per_row=order.tokens_per_row,
        evaluate=lambda precision: judge(few, precision),
        sample=lambda step: rewritten(given, few, step),
        guessing_nats=math.log(run.model.rows),
        facts=facts_of_examples(given),
        example=example_of(order.batch(0, 1), spelled(tokenizer)),
        judge=judge,
        write=lambda side, beams: rewrite(given, side, beams),
    )


def rewrite(given: TaskInputs, side: Examples, beams: Beams) -> list[Written]:
    """What the model writes of each source."""
    longest = given.run.model.context_length
    pairs = [
        (side.columns["source"][place].tolist(), side.columns["target"][place].tolist())
        for place in range(len(side))
    ]
    bounded_beams = replace(beams, max_new_tokens=min(beams.max_new_tokens, longest))
    return written(given, pairs, bounded_beams, reads=True)


def rewritten(given: TaskInputs, examples: Examples, step: int) -> Sampled:
    """What the model makes of the first source of `examples`."""
    model, tokenizer = given.model, given.tokenizer
    source = examples.columns["source"][0].tolist()
    return speak_after(
        model,
        tokenizer,
        [tokenizer.begin_id],
        tokenizer.decode(source),
        step,
        encoded=encode(model, [source]),
    )
