"""Writing a text while looking at another: translation, summaries, questions and answers.

Comes in: prepared pairs. Goes out: a task. It does not know languages.
"""

from __future__ import annotations

import math

from pellucid.examples import Bucketed, Examples, TwoTexts, in_turn
from pellucid.generation import encode
from pellucid.objectives import assemble
from pellucid.runs.example import example_of
from pellucid.runs.speak import speak_after
from pellucid.runs.tasks.judging import judged, some_of
from pellucid.runs.tasks.read import facts_of_examples
from pellucid.runs.tasks.task import Given, Task
from pellucid.training import HeldOut, Precision, Sampled


def rewriting(given: Given) -> Task:
    """Pairs of about the same length; judged by nats per token of the targets."""
    run, data, tokenizer = given.run, given.examples, given.tokenizer
    collation = TwoTexts(
        pad_id=tokenizer.end_id, longest=run.model.context_length, start_id=tokenizer.begin_id
    )
    objective = assemble(run.objective)
    rows = run.training.batch_size
    order = Bucketed(data.train, collation, rows_at_once=rows, seed=run.seed)

    def judge(side: Examples, precision: Precision) -> HeldOut:
        batches = in_turn(side, collation, rows)
        return judged(objective, given.model, batches, precision, unit="tokens")

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
        example=example_of(order.batch(0, 1), tokenizer.decode),
        judge=judge,
    )


def rewritten(given: Given, examples: Examples, step: int) -> Sampled:
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
