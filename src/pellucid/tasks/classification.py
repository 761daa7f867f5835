"""Naming the class of a text.

Comes in: prepared texts with labels. Goes out: a task. It does not know what the classes mean.
"""

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
from pellucid.inference.classification import shares_of
from pellucid.objectives import assemble
from pellucid.tasks.data_summary import facts_of_examples
from pellucid.tasks.example_view import example_of, spelled
from pellucid.tasks.held_out_loss import judge_by, some_of
from pellucid.tasks.task import Fact, Task, TaskInputs
from pellucid.training import HeldOut, Precision, Sampled, autocast, to_device
from pellucid.typed import to_list, to_numpy

Probabilities = npt.NDArray[Any]


def classifying(given: TaskInputs) -> Task:
    """Texts of about the same length; judged by nats per text, and by what comes out right."""
    run, data = given.run, given.examples
    assert isinstance(run.objective, config.Classification)
    head = run.model.head
    assert isinstance(head, config.ClassificationHead)
    assert head.classes is not None
    collation = ClassLabels(
        pad_id=given.tokenizer.end_id,
        longest=run.model.context_length,
        n_classes=len(head.classes),
        several=run.objective.multi_label,
    )
    objective = assemble(run.objective)
    rows = run.training.batch_size
    order = BucketedBatches(data.train, collation, rows_at_once=rows, seed=run.seed)

    def classify(side: Examples, precision: Precision) -> Classified:
        probabilities, labels = predicted(given, side, collation, precision)
        return classification_measures(probabilities, labels, head.classes or ())

    by_texts = judge_by(given, objective, collation, "texts")

    def judge(side: Examples, precision: Precision) -> HeldOut:
        held_out = by_texts(side, precision)
        return replace(
            held_out, measures={**held_out.measures, **classify(side, precision).measures}
        )

    few = some_of(data.held_out, "ids", run.training.evaluate_tokens)
    multi = run.objective.multi_label
    return Task(
        objective=objective,
        batch=order.batch,
        rows_per_epoch=order.rows_per_epoch,
        tokens_per_row=order.tokens_per_row,
        evaluate=lambda precision: judge(few, precision),
        sample=lambda step: classified(given, few, head.classes or (), step, several=multi),
        guessing_nats=math.log(2 if multi else len(head.classes)),
        unit="texts",
        facts=(*facts_of_examples(given), *_classes(data.train, head.classes)),
        example=example_of(
            order.batch(0, 1),
            spelled(given.tokenizer),
            causal=run.model.encoder is None,
            classes=head.classes,
        ),
        judge=judge,
        classify=classify,
    )


def predicted(
    given: TaskInputs, side: Examples, collation: ClassLabels, precision: Precision
) -> tuple[Probabilities, Probabilities]:
    """P of each class of each text, and the labels, in the order of their lengths."""
    model = given.model
    probabilities: list[torch.Tensor] = []
    labels: list[torch.Tensor] = []
    for batch in in_turn(side, collation, given.run.training.batch_size):
        device_batch = to_device(batch, model.device)
        with torch.no_grad(), autocast(model.device, precision):
            logits = model.class_logits(device_batch.ids, padding=device_batch.padding).float()
        shares = shares_of(logits, several=collation.several)
        probabilities.append(shares.cpu())
        labels.append(batch.labels)
    return to_numpy(torch.cat(probabilities)), to_numpy(torch.cat(labels))


def classified(
    given: TaskInputs, examples: Examples, classes: tuple[str, ...], step: int, *, several: bool
) -> Sampled:
    """What the model says of the first of `examples`."""
    model, ids = given.model, examples.columns["ids"][0].tolist()
    with torch.no_grad():
        logits = model.class_logits(torch.tensor([ids], device=model.device))[0].float()
    shares = to_list(shares_of(logits, several=several))
    ranked = sorted(zip(classes, shares, strict=True), key=lambda pair: -pair[1])
    return Sampled(
        step=step,
        sentence=given.tokenizer.decode(ids),
        next_tokens=tuple(ranked[:3]),
        continuation=", ".join(name for name, share in ranked if share > 0.5) or "none of them"
        if several
        else ranked[0][0],
    )


def _classes(train: Examples, classes: tuple[str, ...]) -> Iterator[Fact]:
    labels = train.columns["label"]
    # where a text may have several, each row is a 0 or 1 for every class
    multi_label = bool(labels.lengths.max() > 1)
    counts = (
        labels.flat.reshape(len(labels.lengths), -1).sum(axis=0)
        if multi_label
        else np.bincount(labels.flat, minlength=len(classes))
    )
    listing = ", ".join(f"{name} {n:,}" for name, n in zip(classes, counts, strict=True))
    yield "classes", listing
