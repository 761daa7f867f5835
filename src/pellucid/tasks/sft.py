"""Instruction tuning: predicting the tokens of answers; the model only reads the prompts."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pellucid import config
from pellucid.batches import TokenBatch
from pellucid.data import Answers, BucketedBatches, Examples, PackedBatches
from pellucid.evaluation.objective import example_evaluator, select_examples
from pellucid.generation import Beams
from pellucid.objectives import assemble
from pellucid.tasks.data_summary import summarise_data
from pellucid.tasks.example_view import readable_decoder, view_example
from pellucid.tasks.generated_texts import generate_texts
from pellucid.tasks.prompt_sample import PromptSampler
from pellucid.tasks.task import Fact, GeneratedText, Task, TaskInputs


def sft_task(inputs: TaskInputs) -> Task:
    """Conversations, packed or of about the same length; evaluated by nats per answer token."""
    run, data = inputs.run, inputs.data
    assert isinstance(run.objective, config.SFT)
    length, pad_id = run.model.context_length, inputs.tokenizer.end_id
    collation = Answers(pad_id=pad_id, longest=length)
    objective = assemble(run.objective)
    order: PackedBatches | BucketedBatches[TokenBatch]
    if run.objective.packed:
        order = PackedBatches(data.train, context_length=length, pad_id=pad_id, seed=run.seed)
    else:
        rows = run.training.batch_size
        order = BucketedBatches(data.train, collation, rows_at_once=rows, seed=run.seed)

    evaluate = example_evaluator(
        objective, inputs.model, collation, batch_size=run.training.batch_size, unit="tokens"
    )
    prompt_sampler = PromptSampler(inputs)
    held_out_examples = select_examples(data.held_out, "ids", run.training.evaluate_tokens)
    return Task(
        objective=objective,
        batch=order.batch,
        rows_per_epoch=order.rows_per_epoch,
        tokens_per_row=order.tokens_per_row,
        evaluate=lambda precision: evaluate(held_out_examples, precision),
        sample=lambda step: prompt_sampler.sample(prompt_and_answer(held_out_examples, 0)[0], step),
        guessing_nats=math.log(run.model.rows),
        facts=(*summarise_data(inputs), *_list_packing(order)),
        example=view_example(order.batch(0, 1), readable_decoder(inputs.tokenizer)),
        evaluate_examples=evaluate,
        generate=lambda examples, beams: generate_answers(inputs, examples, beams),
    )


def generate_answers(inputs: TaskInputs, examples: Examples, beams: Beams) -> list[GeneratedText]:
    """The model's answer in place of the first answer of each conversation."""
    pairs = [prompt_and_answer(examples, place) for place in range(len(examples))]
    return generate_texts(inputs, pairs, beams, encodes=False)


def prompt_and_answer(examples: Examples, place: int) -> tuple[list[int], list[int]]:
    """The token ids before the first answer, and the token ids of the answer."""
    ids, supervised = (examples.columns[name][place].tolist() for name in ("ids", "supervised"))
    begin = supervised.index(1) if 1 in supervised else len(ids)
    tail = supervised[begin:]
    end = begin + (tail.index(0) if 0 in tail else len(tail))
    return ids[:begin], ids[begin:end]


def _list_packing(order: PackedBatches | BucketedBatches[TokenBatch]) -> Iterator[Fact]:
    if isinstance(order, PackedBatches):
        yield "packed", f"{order.rows_per_epoch:,} rows, {order.filled:.1%} of them filled"
