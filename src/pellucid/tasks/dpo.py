"""Making the preferred answer likelier than the rejected one (DPO)."""

from __future__ import annotations

import math
from dataclasses import replace

from pellucid.data import BucketedBatches, Examples, TwoAnswers
from pellucid.evaluation.objective import example_evaluator, select_examples
from pellucid.objectives import assemble
from pellucid.tasks.data_summary import summarise_data
from pellucid.tasks.example_view import readable_decoder, view_example
from pellucid.tasks.prompt_sample import PromptSampler
from pellucid.tasks.rollouts import RolloutSampler, reference_model
from pellucid.tasks.task import Task, TaskInputs
from pellucid.training import HeldOut, Precision


def dpo_task(inputs: TaskInputs) -> Task:
    """Pairs of about the same length; evaluated by nats per pair and by how often `chosen` wins.

    The KL is measured on answers that the model samples itself, not on the answers in the data.
    """
    run, data, tokenizer = inputs.run, inputs.data, inputs.tokenizer
    collation = TwoAnswers(pad_id=tokenizer.end_id, longest=run.model.context_length)
    reference = reference_model(inputs)
    objective = assemble(run.objective, reference=reference)
    rows = run.training.batch_size
    order = BucketedBatches(data.train, collation, rows_at_once=rows, seed=run.seed)

    evaluate_loss = example_evaluator(
        objective, inputs.model, collation, batch_size=rows, unit="pairs"
    )

    def evaluate(examples: Examples, precision: Precision) -> HeldOut:
        held_out = evaluate_loss(examples, precision)
        lengths = (examples.columns[name].lengths.max() for name in ("chosen", "rejected"))
        kl = sampler.mean_kl(examples, rows, int(max(lengths)), precision)
        return replace(held_out, measures={**held_out.measures, "kl_exact": kl})

    sampler = RolloutSampler(inputs.model, tokenizer, reference, temperature=1.0, seed=run.seed)
    prompt_sampler = PromptSampler(inputs)
    held_out_examples = select_examples(data.held_out, "chosen", run.training.evaluate_tokens)
    return Task(
        objective=objective,
        batch=order.batch,
        rows_per_epoch=order.rows_per_epoch,
        tokens_per_row=order.tokens_per_row,
        evaluate=lambda precision: evaluate(held_out_examples, precision),
        sample=lambda step: prompt_sampler.sample(
            held_out_examples.columns["prompt"][0].tolist(), step
        ),
        guessing_nats=math.log(2),
        unit="pairs",
        facts=summarise_data(inputs),
        example=view_example(order.batch(0, 1), readable_decoder(tokenizer)),
        evaluate_examples=evaluate,
    )
