"""Extend a family by its class for text classification.

BertForSequenceClassification   the first token's state, through the pooler
LlamaForSequenceClassification  the state of the last token that is not padding; no bias
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from pellucid import config
from pellucid.checkpoints.huggingface.attributes import Read, Rules, Table
from pellucid.checkpoints.huggingface.family import DirectoryContents, Family
from pellucid.checkpoints.huggingface.names import linear
from pellucid.errors import CheckpointError

#: `problem_type` if a text can have several classes, or none.
MULTI_LABEL = "multi_label_classification"
SINGLE_LABEL = "single_label_classification"

_RULES: Rules = {
    "id2label": Read(dict, None),
    "label2id": Read(dict, None),
    "num_labels": Read(int, None),
    "problem_type": Read(str, None),
}


def with_classes(
    family: Family,
    architecture: str,
    matrix: str,
    *,
    pooling: Literal["first", "last"],
    bias: bool,
    body: str = "",
    dropout: Sequence[str] = (),
) -> Family:
    """The family with one more architecture.

    Args:
        family: the family.
        architecture: the class for text classification.
        matrix: the published name of the matrix of the classes.
        pooling: the state that the matrix reads.
        bias: whether the matrix has a bias.
        body: the class without a head, if the matrix reads the output of a pooler.
        dropout: attributes for the rate of dropout; the first one with a value counts.
    """
    headless = body or family.architectures[0]

    def read(attributes: Table, stored: DirectoryContents) -> config.Transformer:
        if stored.architecture != architecture:
            return family.read(attributes, stored)
        rates = [attributes[name] for name in dropout if attributes[name] is not None]
        head = config.ClassificationHead(
            classes=read_classes(attributes),
            pooling=pooling,
            dropout=rates[0] if rates else 0.0,
            bias=bias,
        )
        model = family.read(attributes, replace(stored, architecture=headless))
        return replace(model, head=head, pooler=bool(body))

    def describe(model: config.Transformer) -> Table:
        table = family.describe(model)
        if isinstance(model.head, config.ClassificationHead):
            table |= _describe_head(model.head, dropout[:1])
        return table

    def architecture_of(model: config.Transformer) -> str:
        classifies = isinstance(model.head, config.ClassificationHead)
        return architecture if classifies else family.architecture_for(model)

    return replace(
        family,
        architectures=(*family.architectures, architecture),
        rules={**family.rules, **_RULES, **dict.fromkeys(dropout[:1], Read(float, None))},
        names={**family.names, **dict(linear("classifier", matrix))},
        read=read,
        describe=describe,
        architecture_of=architecture_of,
    )


def read_classes(attributes: Table) -> tuple[str, ...]:
    """The names of the classes, in order; the default names are LABEL_0, LABEL_1 and so on.

    Raises:
        CheckpointError: there are too few, they contradict each other, or the task is another.
    """
    problem = attributes["problem_type"]
    if problem not in (None, SINGLE_LABEL, MULTI_LABEL):
        raise CheckpointError(
            f"config.json: problem_type = {problem!r} is not handled; those that are: "
            f"{SINGLE_LABEL}, {MULTI_LABEL}"
        )
    names = _names(attributes)
    if len(names) < 2:
        raise CheckpointError(
            f"config.json names {len(names)} class in id2label or num_labels: a model with one "
            "number per text is a regression, which is not handled"
        )
    numbers: Table | None = attributes["label2id"]
    if numbers is not None and numbers != {name: place for place, name in enumerate(names)}:
        raise CheckpointError(
            "config.json: label2id contradicts id2label, so the classes are ambiguous: correct it "
            "or remove it"
        )
    return names


def _names(attributes: Table) -> tuple[str, ...]:
    names: Table | None = attributes["id2label"]
    if names is None:
        number: int | None = attributes["num_labels"]
        return tuple(f"LABEL_{place}" for place in range(2 if number is None else number))
    ordered = [names.get(str(place)) for place in range(len(names))]
    class_names = tuple(name for name in ordered if isinstance(name, str))
    if len(class_names) < len(names):
        raise CheckpointError(
            f"config.json: id2label must name the classes from 0 to {len(names) - 1}, was {names!r}"
        )
    return class_names


def _describe_head(head: config.ClassificationHead, dropout: Sequence[str]) -> Table:
    names = head.names
    return {
        "id2label": {str(place): name for place, name in enumerate(names)},
        "label2id": {name: place for place, name in enumerate(names)},
        **dict.fromkeys(dropout, head.dropout),
    }
