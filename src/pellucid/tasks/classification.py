"""Predicting the class of a text."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from pellucid import config
from pellucid.data import BucketedBatches, ClassLabels, Examples, in_turn
from pellucid.evaluation.metrics import Classified, classification_measures
from pellucid.evaluation.objective import example_evaluator, select_examples
from pellucid.inference.classification import shares_of
from pellucid.objectives import assemble
from pellucid.tasks.data_summary import summarise_data
from pellucid.tasks.example_view import readable_decoder, view_example
from pellucid.tasks.task import Fact, Task, TaskInputs
from pellucid.training import HeldOut, Precision, Sampled, autocast, to_device
from pellucid.typed import to_list, to_numpy

Probabilities = npt.NDArray[Any]


def classification_task(inputs: TaskInputs) -> Task:
    """Batches of texts of about the same length; evaluated by nats per text and by accuracy."""
    run, data = inputs.run, inputs.data
    assert isinstance(run.objective, config.Classification)
    head = run.model.head
    assert isinstance(head, config.ClassificationHead)
    assert head.classes is not None
    collation = ClassLabels(
        pad_id=inputs.tokenizer.end_id,
        longest=run.model.context_length,
        n_classes=len(head.classes),
        multi_label=run.objective.multi_label,
    )
    objective = assemble(run.objective)
    rows = run.training.batch_size
    order = BucketedBatches(data.train, collation, rows_at_once=rows, seed=run.seed)

    def measure_classes(examples: Examples, precision: Precision) -> Classified:
        probabilities, labels = predict_classes(inputs, examples, collation, precision)
        return classification_measures(probabilities, labels, head.classes or ())

    evaluate_loss = example_evaluator(
        objective, inputs.model, collation, batch_size=rows, unit="texts"
    )

    def evaluate(examples: Examples, precision: Precision) -> HeldOut:
        held_out = evaluate_loss(examples, precision)
        class_measures = measure_classes(examples, precision).measures
        return replace(held_out, measures={**held_out.measures, **class_measures})

    held_out_examples = select_examples(data.held_out, "ids", run.training.evaluate_tokens)
    multi_label = run.objective.multi_label
    return Task(
        objective=objective,
        batch=order.batch,
        rows_per_epoch=order.rows_per_epoch,
        tokens_per_row=order.tokens_per_row,
        evaluate=lambda precision: evaluate(held_out_examples, precision),
        sample=lambda step: sample_classes(
            inputs, held_out_examples, head.classes or (), step, multi_label=multi_label
        ),
        guessing_nats=math.log(2 if multi_label else len(head.classes)),
        unit="texts",
        facts=(*summarise_data(inputs), *_list_class_counts(data.train, head.classes)),
        example=view_example(
            order.batch(0, 1),
            readable_decoder(inputs.tokenizer),
            causal=run.model.encoder is None,
            classes=head.classes,
        ),
        evaluate_examples=evaluate,
        measure_classes=measure_classes,
    )


def predict_classes(
    inputs: TaskInputs, examples: Examples, collation: ClassLabels, precision: Precision
) -> tuple[Probabilities, Probabilities]:
    """The probabilities of each text's classes, and the labels; the shortest text comes first.

    Args:
        inputs: the model and its config.
        examples: the texts with their labels.
        collation: makes a batch of texts.
        precision: the type of matrix products.

    Returns:
        Probabilities (texts, classes), and labels (texts,) or, with several for each text,
        (texts, classes).
    """
    model = inputs.model
    probabilities: list[torch.Tensor] = []
    labels: list[torch.Tensor] = []
    for batch in in_turn(examples, collation, inputs.run.training.batch_size):
        device_batch = to_device(batch, model.device)
        with torch.no_grad(), autocast(model.device, precision):
            logits = model.class_logits(device_batch.ids, padding=device_batch.padding).float()
        shares = shares_of(logits, multi_label=collation.multi_label)
        probabilities.append(shares.cpu())
        labels.append(batch.labels)
    return to_numpy(torch.cat(probabilities)), to_numpy(torch.cat(labels))


def sample_classes(
    inputs: TaskInputs,
    examples: Examples,
    classes: tuple[str, ...],
    step: int,
    *,
    multi_label: bool,
) -> Sampled:
    """The model's classification of the first example.

    Args:
        inputs: the model and its tokenizer.
        examples: the texts.
        classes: the names of the classes.
        step: how many updates are done.
        multi_label: whether a text may have several classes, or none.
    """
    model, ids = inputs.model, examples.columns["ids"][0].tolist()
    with torch.no_grad():
        logits = model.class_logits(torch.tensor([ids], device=model.device))[0].float()
    shares = to_list(shares_of(logits, multi_label=multi_label))
    ranked = sorted(zip(classes, shares, strict=True), key=lambda pair: -pair[1])
    return Sampled(
        step=step,
        sentence=inputs.tokenizer.decode(ids),
        next_tokens=tuple(ranked[:3]),
        continuation=", ".join(name for name, share in ranked if share > 0.5) or "none of them"
        if multi_label
        else ranked[0][0],
    )


def _list_class_counts(train: Examples, classes: tuple[str, ...]) -> Iterator[Fact]:
    labels = train.columns["label"]
    # a text with several labels has a row with a 0 or 1 for each class
    multi_label = bool(labels.lengths.max() > 1)
    counts = (
        labels.flat.reshape(len(labels.lengths), -1).sum(axis=0)
        if multi_label
        else np.bincount(labels.flat, minlength=len(classes))
    )
    listing = ", ".join(f"{name} {n:,}" for name, n in zip(classes, counts, strict=True))
    yield "classes", listing
