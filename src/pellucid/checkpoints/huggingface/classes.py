"""A family's class that names the class of a text, beside the one with a language head.

    BertForSequenceClassification   the first token's state, through the pooler
    LlamaForSequenceClassification  the state of the last token that is no padding; no bias

Comes in: a family. Goes out: the same family, which also reads and writes that class. It does not
know which family it is handed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from pellucid import config
from pellucid.checkpoints.huggingface.attributes import Read, Rules, Table
from pellucid.checkpoints.huggingface.family import Family, Found
from pellucid.checkpoints.huggingface.names import linear
from pellucid.errors import CheckpointError

#: What `problem_type` says where a text may be of several classes, or of none.
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
    """The family with one class more.

    `matrix` is what it calls the one that gives each class a logit; with `body`, the class without
    a head, it stands on a pooler. `dropout` names attributes, of which the first that is there is
    the rate.
    """
    without = body or family.architectures[0]

    def read(attributes: Table, stored: Found) -> config.Transformer:
        if stored.architecture != architecture:
            return family.read(attributes, stored)
        rates = [attributes[name] for name in dropout if attributes[name] is not None]
        head = config.ClassificationHead(
            classes=read_classes(attributes),
            pooling=pooling,
            dropout=rates[0] if rates else 0.0,
            bias=bias,
        )
        model = family.read(attributes, replace(stored, architecture=without))
        return replace(model, head=head, pooler=bool(body))

    def describe(model: config.Transformer) -> Table:
        table = family.describe(model)
        if isinstance(model.head, config.ClassificationHead):
            table |= _described(model.head, dropout[:1])
        return table

    def architecture_of(model: config.Transformer) -> str:
        classifies = isinstance(model.head, config.ClassificationHead)
        return architecture if classifies else family.architecture_of(model)

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
    """The names of the classes, in order; `transformers` calls those without one LABEL_0 and so on.

    Raises:
        CheckpointError: there are none, they contradict each other, or the task is another.
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
            f"config.json names {len(names)} class in id2label or num_labels: a model that gives a "
            "text one number is a regression, which is not handled"
        )
    numbers: Table | None = attributes["label2id"]
    if numbers is not None and numbers != {name: place for place, name in enumerate(names)}:
        raise CheckpointError(
            "config.json: label2id does not say the same as id2label: which class is which is "
            "not known; correct it, or take it out"
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


def _described(head: config.ClassificationHead, dropout: Sequence[str]) -> Table:
    names = head.names
    return {
        "id2label": {str(place): name for place, name in enumerate(names)},
        "label2id": {name: place for place, name in enumerate(names)},
        **dict.fromkeys(dropout, head.dropout),
    }
