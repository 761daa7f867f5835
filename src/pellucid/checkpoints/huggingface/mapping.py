"""The rows of a family's table: an attribute of `config.json`, and its place in a config.

    integer("num_attention_heads", "decoder.layers.attention.n_heads")

A row works in both directions. `config_tree` explains the paths.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from pellucid.checkpoints.huggingface.attributes import (
    REQUIRED,
    Derived,
    FixedValue,
    Ignored,
    OtherName,
    Read,
    Rules,
    Table,
)
from pellucid.checkpoints.huggingface.config_tree import set_values, values_at
from pellucid.errors import CheckpointError
from pellucid.reader import short

#: The most layers that share their tensors.
_MOST_SHARED = 10_000


class Unfit(Exception):  # noqa: N818  not an error: another family may fit
    """A family does not fit a model for these reasons.

    `shape`: the model has an encoder or a decoder that the family lacks, or lacks one.
    """

    def __init__(self, *reasons: str, shape: bool = False) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons
        self.shape = shape


@dataclass(frozen=True, slots=True)
class DirectoryContents:
    """The architecture that a directory states, and the full names of its tensors.

    Without `tensors` the config alone is read: no tensor can contradict it.
    """

    architecture: str
    tensors: frozenset[str]


#: From the attributes to the tree of a config, in place.
ReadRow = Callable[[Table, Table, DirectoryContents], None]
#: From the tree of a config to attributes.
WriteRow = Callable[[Table], Table]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Some attributes, and what they mean in a config, in both directions.

    Rows are read in their order: what a row needs in the tree, an earlier row has put there.
    """

    rules: Rules
    read: ReadRow = lambda attributes, tree, stored: None
    write: WriteRow = lambda tree: {}


def attribute(
    name: str,
    rule: Read,
    *paths: str,
    to_config: Callable[[Any], Any] = lambda value: value,
    from_config: Callable[[Any], Any] = lambda value: value,
    changes_logits: bool = True,
) -> Row:
    """An attribute whose value is at some paths of the config.

    Args:
        name: of the attribute.
        rule: its type and default.
        paths: where its value is; all have the same.
        to_config: from the published value to the one in the config.
        from_config: the inverse.
        changes_logits: if not, such as a rate of dropout, the paths may differ in a model that is
            written, and the first one counts.
    """

    def read(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
        for path in paths:
            set_values(tree, path, to_config(attributes[name]))

    def write(tree: Table) -> Table:
        values = [value for path in paths for value in values_at(tree, path)]
        if not values:
            return {}
        if changes_logits and (other := next((v for v in values if v != values[0]), None)):
            raise Unfit(
                f"{plain_path(paths[0])} is {short(values[0])} and {short(other)}, but this "
                f"family has one {name}"
            )
        return {name: from_config(values[0])}

    return Row(rules={name: rule}, read=read, write=write)


def integer(name: str, *paths: str, default: Any = REQUIRED, or_none: bool = False) -> Row:
    """A whole number; `attribute` explains the arguments."""
    return attribute(name, Read(int, default, or_none), *paths)


def number(name: str, *paths: str, default: Any = REQUIRED, or_none: bool = False) -> Row:
    """A number; `attribute` explains the arguments."""
    return attribute(name, Read(float, default, or_none), *paths)


def flag(name: str, *paths: str, default: Any = REQUIRED) -> Row:
    """True or false; `attribute` explains the arguments."""
    return attribute(name, Read(bool, default), *paths)


def training_number(name: str, *paths: str, default: Any = 0.0) -> Row:
    """A number that changes training alone, such as a rate of dropout."""
    rule = Read(float, default, or_none=default is None)
    return attribute(
        name,
        rule,
        *paths,
        from_config=lambda value: default if value is None else value,
        changes_logits=False,
    )


def choice(
    name: str,
    values: Mapping[Any, Any],
    *paths: str,
    default: Any = REQUIRED,
    names: Mapping[Any, Any] | None = None,
) -> Row:
    """An attribute with a few values; each means a value or a table of the config.

    Args:
        name: of the attribute.
        values: what each published value means. Another one is refused.
        paths: where the meaning is put.
        default: a published value.
        names: the value that is written for a meaning, if several mean the same.
    """

    def to_config(value: Any) -> Any:
        if value not in values:
            raise CheckpointError(
                f"config.json: {name} = {short(value)} is not handled; those that are: "
                f"{', '.join(map(str, values))}"
            )
        return values[value]

    def from_config(value: Any) -> Any:
        if names is not None and value in names:
            return names[value]
        match = next((key for key, meaning in values.items() if contains(value, meaning)), REQUIRED)
        if match is REQUIRED:
            kind = cast("Table", value)["kind"] if isinstance(value, dict) else short(value)
            raise Unfit(f"{plain_path(paths[0])} is {kind}, but this family has no {name} for it")
        return match

    return attribute(
        name, Read(_type_of(values), default), *paths, to_config=to_config, from_config=from_config
    )


def _type_of(values: Mapping[Any, Any]) -> type[Any]:
    """The type of all keys."""
    return cast("type[Any]", type(next(iter(values))))


def plain_path(path: str) -> str:
    """A path as messages name it."""
    return re.sub(r":\w+|\?", "", path.replace(".layers.", "."))


def contains(value: Any, part: Any) -> bool:
    """Whether a value equals another, or is a table with all of its keys."""
    if isinstance(value, dict) and isinstance(part, dict):
        table, items = cast("Table", value), cast("Table", part).items()
        return all(key in table and contains(table[key], item) for key, item in items)
    return value == part


def depth(name: str, stack: str, default: Any = REQUIRED, *, shared: bool = False) -> Row:
    """The number of layers of a stack: its one layer so far is repeated.

    `shared`: layers share their tensors, so the files say nothing about the number.
    """

    def read(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
        n_layers: int = attributes[name]
        n_tensors = len(stored.tensors)
        if n_layers < 1:
            raise CheckpointError(f"config.json: {name} must be at least 1, was {n_layers}")
        if n_tensors and n_layers > (_MOST_SHARED if shared else n_tensors):
            raise CheckpointError(
                f"config.json describes {n_layers:,} layers, but the files have {n_tensors:,} "
                "tensors in total: the files belong to another model, or some are missing"
            )
        (layer,) = values_at(tree, f"{stack}.layers")[0]
        tree[stack]["layers"] = [copy.deepcopy(layer) for _ in range(n_layers)]

    return Row(
        rules={name: Read(int, default)},
        read=read,
        write=lambda tree: {name: len(tree[stack]["layers"])},
    )


def fixed(name: str, value: Any) -> Row:
    """An attribute with one handled value."""
    return Row(rules={name: FixedValue(value)})


def ignored(reason: str, *names: str) -> Row:
    """Attributes that change no number of the model."""
    return Row(rules=dict.fromkeys(names, Ignored(reason)))


def other_name(usual: str, *names: str) -> Row:
    """Other names of an attribute that another row reads; they are never written."""
    return Row(rules=dict.fromkeys(names, OtherName(usual)))


def computed(value: Callable[[Table], Any], *paths: str) -> Row:
    """A value of the config that no attribute states: it follows from others."""

    def read(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
        for path in paths:
            set_values(tree, path, value(attributes))

    return Row(rules={}, read=read)


def same_as(name: str) -> Derived:
    """The default is the value of another attribute."""
    return Derived(name, lambda attributes: attributes[name])


def quotient(name: str, divisor: str) -> Derived:
    """The default is the quotient of two other attributes; the config refuses a divisor of 0."""
    return Derived(
        f"{name} / {divisor}", lambda attributes: attributes[name] // (attributes[divisor] or 1)
    )
