"""The loss of an objective on held-out data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch

from pellucid.batches import Batch
from pellucid.data import Collation, Examples, in_turn
from pellucid.model import Transformer
from pellucid.objectives import Objective
from pellucid.training import HeldOut, Precision, autocast, to_device

#: Evaluates a model on examples.
EvaluateExamples = Callable[[Examples, Precision], HeldOut]


def evaluate_objective(
    objective: Objective,
    model: Transformer,
    batches: Iterable[Batch],
    precision: Precision,
    *,
    unit: str,
) -> HeldOut:
    """The mean of each part of the loss over all terms of all batches.

    Args:
        objective: computes the loss of a batch.
        model: the model to evaluate, in evaluation mode.
        batches: the held-out data, on any device.
        precision: the type of matrix products.
        unit: the terms that the loss is a mean over, such as "tokens".
    """
    sums: dict[str, torch.Tensor] = {}
    batch_sums: list[float] = []
    batch_terms: list[int] = []
    for batch in batches:
        with torch.no_grad(), autocast(model.device, precision):
            loss = objective(model, to_device(batch, model.device))
        for name, value in loss.parts.items():
            # the mean of the batch, weighed by its terms
            weighed = value.detach().cpu().double() * batch.n_supervised
            sums[name] = sums[name] + weighed if name in sums else weighed
        batch_sums.append(float(loss.parts["loss_nats"]) * batch.n_supervised)
        batch_terms.append(batch.n_supervised)
    n_terms = sum(batch_terms)
    averages = {name: float(value) / n_terms for name, value in sums.items()}
    loss_nats = averages.pop("loss_nats")
    return HeldOut(
        loss_nats=loss_nats,
        over=n_terms,
        unit=unit,
        measures=averages,
        standard_error=standard_error(batch_sums, batch_terms),
    )


def example_evaluator(
    objective: Objective,
    model: Transformer,
    collation: Collation[Batch],
    *,
    batch_size: int,
    unit: str,
) -> EvaluateExamples:
    """A function that evaluates the objective on examples, in batches of about the same length.

    Args:
        objective: computes the loss of a batch.
        model: the model to evaluate.
        collation: makes a batch of examples.
        batch_size: examples in a batch.
        unit: the terms that the loss is a mean over, such as "texts".
    """

    def evaluate(examples: Examples, precision: Precision) -> HeldOut:
        batches = in_turn(examples, collation, batch_size)
        return evaluate_objective(objective, model, batches, precision, unit=unit)

    return evaluate


def select_examples(examples: Examples, column: str, n_tokens: int) -> Examples:
    """At least one example from all over, with about `n_tokens` tokens in a column.

    Args:
        examples: the examples to select from.
        column: the column that counts.
        n_tokens: how many tokens it should hold.
    """
    mean_length = float(np.mean(examples.columns[column].lengths))
    return examples.spread(max(1, int(n_tokens / mean_length)))


def standard_error(sums: Sequence[float], counts: Sequence[int]) -> float | None:
    """sqrt(K / (K - 1) sum_k (s_k - m n_k)^2) / N, m = sum s_k / N: of a mean over K parts.

    Parts are what varies independently: windows of a text, or batches of examples. None for fewer
    than two of them.

    Args:
        sums: the sum s_k of the losses of each part.
        counts: its number n_k of terms.

    Source:
        Cochran 1977, "Sampling Techniques", eq. 6.4 (the variance of a ratio estimate).
    """
    n_parts, total = len(sums), sum(counts)
    if n_parts < 2:
        return None
    mean = math.fsum(sums) / total
    squares = math.fsum((s - mean * n) ** 2 for s, n in zip(sums, counts, strict=True))
    return math.sqrt(n_parts / (n_parts - 1) * squares) / total
