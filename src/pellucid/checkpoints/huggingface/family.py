"""The type of a family of published models: one table, which works in both directions.

A family is a value in `families`. It converts the attributes of a `config.json` to a
`config.Transformer`, and back.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from pellucid import config
from pellucid.checkpoints.huggingface.attributes import Rules, Table
from pellucid.checkpoints.huggingface.config_tree import STACKS, expand, fold
from pellucid.checkpoints.huggingface.mapping import DirectoryContents, Row, Unfit
from pellucid.checkpoints.huggingface.names import Names, Source, source_of

#: A head without a setting of its own.
LANGUAGE_HEAD: Table = {"kind": "LanguageHead"}
NO_HEAD: Table = {"kind": "NoHead"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One `model_type` of `transformers`.

    Attributes:
        model_type: its name.
        heads: the classes that can be read, with their heads; the first if a file names none.
        skeleton: the config as `config_tree` writes it, without what `rows` put there; each stack
            has one layer.
        rows: what each attribute of `config.json` means.
        names: the published tensor of each parameter.
        other_names: other published tensors of some parameters, which are read but never written.
        prefix: what all names start with in a model with a head, and lack in one without.
        older: ends of names in older files, and their ends today.
        ignored_tensors: patterns of tensors that have no parameter, with the reason.
        copies: tensors that must equal another one.
        repeated: tensors that are written as copies of others, and are not read.
        computed: buffers that the model computes, and their tensors in files that have them, which
            must agree.
        zero_if_missing: constants of the model that are zero in files without them.
        absent_ids: ids of tokens that are written as null if a model has none: the default of
            `transformers` is a token, which a smaller vocabulary may lack.
    """

    model_type: str
    heads: Mapping[str, Table]
    skeleton: Table
    rows: tuple[Row, ...]
    names: Names | Callable[[config.Transformer], Names]
    other_names: Names = field(default_factory=dict[str, Source])
    prefix: str = ""
    older: Mapping[str, str] = field(default_factory=dict[str, str])
    ignored_tensors: Mapping[str, str] = field(default_factory=dict[str, str])
    copies: Mapping[str, str] | Callable[[config.Transformer], Mapping[str, str]] = field(
        default_factory=dict[str, str]
    )
    repeated: Callable[[config.Transformer], Mapping[str, str]] = lambda model: {}
    computed: Mapping[str, str] = field(default_factory=dict[str, str])
    zero_if_missing: frozenset[str] = frozenset()
    absent_ids: tuple[str, ...] = ()

    @property
    def architectures(self) -> tuple[str, ...]:
        """The classes that can be read."""
        return tuple(self.heads)

    @property
    def rules(self) -> Rules:
        """What each attribute of `config.json` means."""
        return {name: rule for row in self.rows for name, rule in row.rules.items()}

    def read(self, attributes: Table, stored: DirectoryContents) -> config.Transformer:
        """The config that attributes describe.

        Args:
            attributes: by `read_attributes`.
            stored: the class, and the tensors of the files if they are known.

        Raises:
            CheckpointError: a value is not handled.
            ConfigError: the values describe no model.
        """
        tree = copy.deepcopy(self.skeleton)
        tree["head"] = copy.deepcopy(self.heads[stored.architecture])
        for row in self.rows:
            row.read(attributes, tree, stored)
        return fold(tree)

    def describe(self, model: config.Transformer) -> Table:
        """The attributes of a config, as far as this family has them.

        Raises:
            Unfit: the config has a part that the family does not have.
        """
        tree = expand(model)
        for stack in STACKS:
            if (stack in tree) != (stack in self.skeleton):
                presence = "is present" if stack in tree else "is absent"
                raise Unfit(f"{stack} {presence}, but not in this family", shape=True)
        if reasons := tuple(dict.fromkeys(_other_kinds(tree, self.skeleton))):
            raise Unfit(*reasons)
        table: Table = {}
        for row in self.rows:
            try:
                table |= row.write(tree)
            except KeyError as missing:
                raise Unfit(f"{missing.args[0]} is absent, but this family has it") from None
        return table

    def architecture_for(self, model: config.Transformer) -> str:
        """The class that a model is written as; the first if none has its head."""
        kind = type(model.head).__name__
        matching = (name for name, head in self.heads.items() if head["kind"] == kind)
        return next(matching, self.architectures[0])

    def names_for(self, model: config.Transformer) -> Names:
        """The names of a model's parameters."""
        return self.names(model) if callable(self.names) else self.names

    def names_in(
        self, model: config.Transformer, parameters: Iterable[str], stored: Container[str]
    ) -> Names:
        """The names of a model's parameters in files with these tensors."""
        names = self.names_for(model)
        others = {**names, **self.other_names}
        sources = (source_of(parameter, others) for parameter in parameters)
        has_others = all(source is not None and source.name in stored for source in sources)
        return others if self.other_names and has_others else names


def _other_kinds(table: Table, skeleton: Table, path: str = "") -> Iterator[str]:
    """The parts of another kind than in the skeleton."""
    for name, part in skeleton.items():
        place = f"{path}.{name}" if path else name
        if isinstance(part, list):
            for layer in table[name]:
                yield from _other_kinds(layer, cast("list[Table]", part)[0], path)
        elif isinstance(part, dict) and name != "initialisation":
            yield from _other_kind(table.get(name), cast("Table", part), place)


def _other_kind(value: Any, part: Table, path: str) -> Iterator[str]:
    kind: str = "absent" if value is None else value["kind"]
    if kind != part.get("kind", kind):
        yield f"{path} is {kind}, but this family has {part['kind']}"
    elif value is not None:
        yield from _other_kinds(value, part, path)
