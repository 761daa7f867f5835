"""Trained weights that outputs depend on and that the model does not list as its own.

Modules in a plain Python list are called like all others, and `parameters()` does not know them.
The graph of the backward pass ends in every tensor that gets a gradient, so it shows them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from torch import nn

from pellucid.typed import named_modules
from pellucid.vitals.taps.outputs import tensors_in

#: A graph of more nodes is not followed to its end.
_NODES = 200_000


def unlisted_weights(model: nn.Module, output: object, inputs: object) -> dict[str, nn.Parameter]:
    """The weights behind outputs that are no parameters of the model, by a name for each.

    What the loop itself gives to the call, such as a learnt prompt, is not the model's.

    Args:
        model: The model that was called.
        output: What it returned.
        inputs: The arguments of the call.
    """
    own_ids = {id(tensor) for tensor in (*model.parameters(), *tensors_in(inputs))}
    weights = {id(leaf): leaf for leaf in _leaf_weights(output, inputs) if id(leaf) not in own_ids}
    hidden_names = _hidden_names(model) if weights else ()
    named_weights = {name: weights.pop(id) for id, name in hidden_names if id in weights}
    return named_weights | {
        f"a tensor of shape {tuple(weight.shape)}, number {number}": weight
        for number, weight in enumerate(weights.values())
    }


def _leaf_weights(output: object, inputs: object) -> Iterator[nn.Parameter]:
    """The parameters at the ends of the graph between inputs and outputs."""
    nodes: list[Any] = [tensor.grad_fn for tensor in tensors_in(output)]
    visited = {None, *(tensor.grad_fn for tensor in tensors_in(inputs))}
    while nodes and len(visited) < _NODES:
        node = nodes.pop()
        if node in visited:
            continue
        visited.add(node)
        leaf = getattr(node, "variable", None)
        if isinstance(leaf, nn.Parameter):
            yield leaf
        nodes += [inner for inner, _ in node.next_functions]


def _hidden_names(model: nn.Module) -> Iterator[tuple[int, str]]:
    """The id and the name of each weight in a list, a tuple or a table that modules hold."""
    for prefix, module in named_modules(model).items():
        for attribute, value in vars(module).items():
            if not attribute.startswith("_"):
                yield from _names_within(value, f"{prefix}.{attribute}".lstrip("."))


def _names_within(value: object, name: str) -> Iterator[tuple[int, str]]:
    if isinstance(value, nn.Parameter):
        yield id(value), name
    elif isinstance(value, nn.Module):
        for inner, weight in value.named_parameters():
            yield id(weight), f"{name}.{inner}"
    elif isinstance(value, Mapping):
        for key, item in cast("Mapping[object, object]", value).items():
            yield from _names_within(item, f"{name}[{key!r}]")
    elif isinstance(value, list | tuple):
        for place, item in enumerate(cast("list[object]", value)):
            yield from _names_within(item, f"{name}[{place}]")
