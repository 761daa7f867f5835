"""Writing the spans that were cut out of a text."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pellucid import config
from pellucid.batches import Batch
from pellucid.data import rings_of, span_batches, span_windows, spans_for
from pellucid.evaluation.objective import evaluate_objective
from pellucid.generation import encode
from pellucid.inference.sample import sample_after
from pellucid.objectives import assemble
from pellucid.tasks.data_summary import summarise_data
from pellucid.tasks.example_view import readable_decoder, view_example
from pellucid.tasks.mlm import HELD_OUT_SEED
from pellucid.tasks.task import Task, TaskInputs
from pellucid.training import Sampled
from pellucid.typed import to_list

#: The tokens of held-out text that a sample is made from: a whole window would fill the screen.
_SAMPLE_TOKENS = 24


def span_corruption_task(inputs: TaskInputs) -> Task:
    """Windows of a text with spans cut out; evaluated by nats per token of the spans."""
    run = inputs.run
    assert isinstance(run.objective, config.SpanCorruption)
    spans = spans_for(
        inputs.tokenizer,
        corrupted=run.objective.corrupted,
        mean_span=run.objective.mean_span,
        start_id=inputs.tokenizer.begin_id,
    )
    length = run.model.context_length
    order = span_batches(
        inputs.data.train.tokens,
        spans,
        context_length=length,
        seed=run.seed,
        rings=rings_of(run.text, inputs.data),
    )

    def windows() -> Iterator[Batch]:
        return span_windows(
            inputs.data.held_out.tokens[: run.training.evaluate_tokens],
            spans,
            context_length=length,
            batch_size=run.training.batch_size,
            seed=HELD_OUT_SEED,
        )

    sample_tokens = inputs.data.held_out.tokens[: min(_SAMPLE_TOKENS, length)]
    example_batch = next(
        span_windows(sample_tokens, spans, context_length=length, batch_size=1, seed=HELD_OUT_SEED)
    )
    source = to_list(example_batch.source[0])
    decode = readable_decoder(inputs.tokenizer)

    def sample(step: int) -> Sampled:
        model, tokenizer = inputs.model, inputs.tokenizer
        encoded_source = encode(model, [source])
        return sample_after(
            model,
            tokenizer,
            [tokenizer.begin_id],
            decode(source),
            step,
            encoded=encoded_source,
            decode=decode,
        )

    objective = assemble(run.objective)
    return Task(
        objective=objective,
        batch=order.batch,
        rows_per_epoch=order.rows_per_epoch,
        tokens_per_row=order.tokens_per_row,
        evaluate=lambda precision: evaluate_objective(
            objective, inputs.model, windows(), precision, unit="tokens"
        ),
        sample=sample,
        guessing_nats=math.log(run.model.rows),
        facts=summarise_data(inputs),
        example=view_example(order.batch(0, 1), decode, causal=False),
    )
