"""Making the chosen of two answers likelier than the rejected one.

Comes in: prepared preferences. Goes out: a task. It does not know who preferred.
"""

from __future__ import annotations

import math

from pellucid.examples import Bucketed, Examples, TwoAnswers, in_turn
from pellucid.objectives import assemble
from pellucid.runs.example import example_of
from pellucid.runs.speak import speak_after
from pellucid.runs.tasks.judging import judged, some_of
from pellucid.runs.tasks.read import facts_of_examples
from pellucid.runs.tasks.references import reference_of
from pellucid.runs.tasks.task import Given, Task
from pellucid.training import HeldOut, Precision, Sampled


def preferring(given: Given) -> Task:
    """Pairs of about the same length; judged by nats per pair, and how often the chosen wins."""
    run, data, tokenizer = given.run, given.examples, given.tokenizer
    collation = TwoAnswers(pad_id=tokenizer.end_id, longest=run.model.context_length)
    objective = assemble(run.objective, reference=reference_of(given))
    rows = run.training.batch_size
    order = Bucketed(data.train, collation, rows_at_once=rows, seed=run.seed)

    def judge(side: Examples, precision: Precision) -> HeldOut:
        batches = in_turn(side, collation, rows)
        return judged(objective, given.model, batches, precision, unit="pairs")

    few = some_of(data.held_out, "chosen", run.training.evaluate_tokens)
    return Task(
        objective=objective,
        batch=order.batch,
        rows_per_epoch=order.rows_per_epoch,
        tokens_per_row=order.tokens_per_row,
        evaluate=lambda precision: judge(few, precision),
        sample=lambda step: answered(given, few, step),
        guessing_nats=math.log(2),
        unit="pairs",
        facts=facts_of_examples(given),
        example=example_of(order.batch(0, 1), tokenizer.decode),
        judge=judge,
    )


def answered(given: Given, examples: Examples, step: int) -> Sampled:
    """How the model answers the first prompt of `examples`."""
    prompt = examples.columns["prompt"][0].tolist()
    sentence = given.tokenizer.decode(prompt)
    return speak_after(given.model, given.tokenizer, prompt, sentence, step)
