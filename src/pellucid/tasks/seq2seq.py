"""Writing a text from another one: translation, summaries, questions and answers."""

from __future__ import annotations

import math
from dataclasses import replace

from pellucid.data import BucketedBatches, Examples, TwoTexts
from pellucid.evaluation.objective import example_evaluator, select_examples
from pellucid.generation import Beams, encode
from pellucid.inference.sample import sample_after
from pellucid.objectives import assemble
from pellucid.tasks.data_summary import summarise_data
from pellucid.tasks.example_view import readable_decoder, view_example
from pellucid.tasks.generated_texts import generate_texts
from pellucid.tasks.task import GeneratedText, Task, TaskInputs
from pellucid.training import Sampled


def seq2seq_task(inputs: TaskInputs) -> Task:
    """Pairs of about the same length; evaluated by nats per token of the targets."""
    run, data, tokenizer = inputs.run, inputs.data, inputs.tokenizer
    collation = TwoTexts(
        pad_id=tokenizer.end_id, longest=run.model.context_length, start_id=tokenizer.begin_id
    )
    objective = assemble(run.objective)
    rows = run.training.batch_size
    order = BucketedBatches(data.train, collation, rows_at_once=rows, seed=run.seed)

    evaluate = example_evaluator(objective, inputs.model, collation, batch_size=rows, unit="tokens")
    held_out_examples = select_examples(data.held_out, "target", run.training.evaluate_tokens)
    return Task(
        objective=objective,
        batch=order.batch,
        rows_per_epoch=order.rows_per_epoch,
        tokens_per_row=order.tokens_per_row,
        evaluate=lambda precision: evaluate(held_out_examples, precision),
        sample=lambda step: sample_target(inputs, held_out_examples, step),
        guessing_nats=math.log(run.model.rows),
        facts=summarise_data(inputs),
        example=view_example(order.batch(0, 1), readable_decoder(tokenizer)),
        evaluate_examples=evaluate,
        generate=lambda examples, beams: generate_targets(inputs, examples, beams),
    )


def generate_targets(inputs: TaskInputs, examples: Examples, beams: Beams) -> list[GeneratedText]:
    """The texts that the model writes from each source."""
    longest = inputs.run.model.context_length
    pairs = [
        (examples.columns["source"][place].tolist(), examples.columns["target"][place].tolist())
        for place in range(len(examples))
    ]
    bounded_beams = replace(beams, max_new_tokens=min(beams.max_new_tokens, longest))
    return generate_texts(inputs, pairs, bounded_beams, encodes=True)


def sample_target(inputs: TaskInputs, examples: Examples, step: int) -> Sampled:
    """The text that the model writes from the first source."""
    model, tokenizer = inputs.model, inputs.tokenizer
    source = examples.columns["source"][0].tolist()
    return sample_after(
        model,
        tokenizer,
        [tokenizer.begin_id],
        tokenizer.decode(source),
        step,
        encoded=encode(model, [source]),
    )
