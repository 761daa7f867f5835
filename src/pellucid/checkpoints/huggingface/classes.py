"""The attributes of a class for text classification: the names of the classes, and the task.

BertForSequenceClassification   the first token's state, through the pooler
LlamaForSequenceClassification  the state of the last token that is not padding; no bias
"""

from __future__ import annotations

from typing import Literal

from pellucid.checkpoints.huggingface.attributes import Read, Table
from pellucid.checkpoints.huggingface.mapping import DirectoryContents, Row
from pellucid.errors import CheckpointError

#: `problem_type` if a text can have several classes, or none.
MULTI_LABEL = "multi_label_classification"
SINGLE_LABEL = "single_label_classification"


def classification_head(pooling: Literal["first", "mean", "last"], *, bias: bool) -> Table:
    """The head of such a class, without its classes."""
    return {"kind": "ClassificationHead", "pooling": pooling, "bias": bias, "dropout": 0.0}


def classes_row(*dropout: str) -> Row:
    """The names of the classes.

    `dropout`: attributes with the rate of dropout before the head; the first one with a value
    counts, and only it is the head's own.
    """

    def read(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
        if tree["head"]["kind"] == "ClassificationHead":
            rates = [attributes[name] for name in dropout if attributes[name] is not None]
            tree["head"]["dropout"] = rates[0] if rates else 0.0
            tree["head"]["classes"] = list(read_classes(attributes))

    def write(tree: Table) -> Table:
        names: list[str] | None = tree["head"].get("classes")
        if names is None:
            return {}
        return {
            "id2label": {str(place): name for place, name in enumerate(names)},
            "label2id": {name: place for place, name in enumerate(names)},
            **dict.fromkeys(dropout[:1], tree["head"]["dropout"]),
        }

    rules = {
        "id2label": Read(dict, None),
        "label2id": Read(dict, None),
        "num_labels": Read(int, None),
        "problem_type": Read(str, None),
        **dict.fromkeys(dropout[:1], Read(float, None)),
    }
    return Row(rules=rules, read=read, write=write)


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
