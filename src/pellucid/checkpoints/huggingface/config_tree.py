"""A config as a table with one entry per layer, into which families put the attributes they read.

    tree = expand(model)
    set_values(tree, "decoder.layers.attention.n_heads", 8)     # in every layer
    values_at(tree, "decoder.layers.positions:Rotary.base")     # of the layers that have it
    model = fold(tree)

A path names keys, and a list means all of its entries. `name:Kind` means only tables of this kind,
and `name?` only those that are present; elsewhere a missing key is an error.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any, cast

from pellucid import config
from pellucid.config import decode, encode
from pellucid.reader import Table

STACKS = ("encoder", "decoder")
#: The parts that can differ from layer to layer, and the kind of a pattern of them.
_PATTERNS = {
    "attention": "Alternating",
    "feed_forward": "AlternatingFeedForward",
    "positions": "AlternatingPositions",
}


def expand(model: config.Transformer) -> Table:
    """The table of a config, in which each stack has a list of `layers`."""
    tree = cast("Table", encode(model))
    for name in STACKS:
        if name in tree:
            _expand_stack(tree[name])
    return tree


def _expand_stack(stack: Table) -> None:
    n_layers: int = stack.pop("n_layers")
    parts = {name: _by_layer(stack.pop(name), n_layers, kind) for name, kind in _PATTERNS.items()}
    stack["layers"] = [
        {name: copy.deepcopy(values[layer]) for name, values in parts.items()}
        for layer in range(n_layers)
    ]


def _by_layer(part: Table, n_layers: int, pattern: str) -> list[Table]:
    if part["kind"] != pattern:
        return [part] * n_layers
    first: list[Table] = part.get("first", [])
    repeated: list[Table] = part["layers"]
    return [
        first[layer] if layer < len(first) else repeated[(layer - len(first)) % len(repeated)]
        for layer in range(n_layers)
    ]


def fold(tree: Table) -> config.Transformer:
    """The config of such a table, with the shortest patterns that repeat to its layers.

    Raises:
        ConfigError: it describes no model; names the key.
    """
    table = dict(tree)
    for name in STACKS:
        if name in table:
            table[name] = _fold_stack(table[name])
    return decode(config.Transformer, table, "model")


def _fold_stack(stack: Table) -> Table:
    table = dict(stack)
    layers: list[Table] = table.pop("layers")
    table["n_layers"] = len(layers)
    for name, kind in _PATTERNS.items():
        first, repeated = shortest_pattern([layer[name] for layer in layers])
        if len(first) + len(repeated) == 1:
            table[name] = repeated[0]
        elif repeated:
            table[name] = {"kind": kind, "layers": repeated, **({"first": first} if first else {})}
    return table


def shortest_pattern(layers: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The first layers, and the shortest pattern that repeats to all others."""
    best: tuple[list[Any], list[Any]] = ([], list(layers))
    for start in range(len(layers)):
        tail = layers[start:]
        period = next(
            n for n in range(1, len(tail) + 1) if all(x == tail[i % n] for i, x in enumerate(tail))
        )
        if start + period < sum(map(len, best)):
            best = list(layers[:start]), list(tail[:period])
    return best


def set_values(tree: Table, path: str, value: object) -> None:
    """Set a key, in every layer if the path goes through `layers`; None removes it."""
    parents, _, key = path.rpartition(".")
    for table in _tables(tree, parents):
        if value is None:
            table.pop(key, None)
        else:
            table[key] = copy.deepcopy(value)


def values_at(tree: Table, path: str) -> list[Any]:
    """The values of a key, one per layer if the path goes through `layers`."""
    parents, _, key = path.rpartition(".")
    return [table.get(key) for table in _tables(tree, parents)]


def _tables(tree: Table, path: str) -> list[Table]:
    tables = [tree]
    for segment in path.split(".") if path else ():
        tables = [child for table in tables for child in _children(table, segment)]
    return tables


def _children(table: Table, segment: str) -> Iterator[Table]:
    name, _, kind = segment.partition(":")
    optional = name.endswith("?") or bool(kind)
    child = table.get(name.removesuffix("?"))
    if child is None:
        if not optional:
            raise KeyError(segment)
        return
    for entry in cast("list[Table]", child if isinstance(child, list) else [child]):
        if not kind or entry["kind"] == kind:
            yield entry
