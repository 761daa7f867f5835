"""Receipts of linear layers: a row of a matrix times what it is given.

An update beside the matrix (LoRA) is part of the row, and is said to be.
"""

from __future__ import annotations

import inspect
from typing import Any, assert_never, cast

from torch import Tensor, nn

from pellucid.explain.chapter_types import Receipt
from pellucid.explain.receipts.builder import (
    added,
    at,
    number,
    product,
    receipt,
    row,
    source_line,
    vector,
)
from pellucid.explain.selection import Selection
from pellucid.explain.trace_types import Trace
from pellucid.model.facts import LinearFacts, LoRAFacts, UnknownFacts, linear_facts

#: The line that projects, by the kind of attention; one for all three if there is no other.
_PROJECTING = {
    ("MultiHeadAttention", "query"): "self.query(x)",
    ("MultiHeadAttention", "key"): "self.key(x)",
    ("MultiHeadAttention", "value"): "self.value(x)",
    ("CrossAttention", "query"): "self.query(",
}
_PROJECTING_TOGETHER = "(self.query, self.key"


def linear_receipt(
    trace: Trace,
    *,
    layer: str,
    input_address: str,
    output_address: str,
    token: int,
    feature: int,
    title: str,
    line: str,
) -> Receipt:
    """W[feature] . x + b: `layer` is the module's name in the model, `given` and `made` addresses.

    `line` is the text of the line that calls it, in the module that holds it.
    """
    module = cast("nn.Linear", trace.model.get_submodule(layer))
    x = vector(trace, at(input_address, token), "x")
    weights, name = _row_of(module, feature)
    row_address = at(f"{layer}.weight", feature) if name.startswith("W") else ""
    w = row(weights, name, row_address)
    bias = cast("Tensor | None", module.bias)
    b = None if bias is None else number(trace, at(f"{layer}.bias", feature), "b")
    holder = trace.model.get_submodule(layer.rpartition(".")[0])
    return receipt(
        trace,
        title=title,
        formula=f"{name} · x" + (" + b" if b else ""),
        expression=added(product(w, x), b),
        address=at(output_address, token, feature),
        source=source_line(_holding(holder, line), line),
    )


def projection_receipt(
    trace: Trace, selection: Selection, kind: str, name: str, *, feature: int
) -> Receipt:
    """One number of a query, key or value as it is projected.

    Args:
        trace: the sentence.
        selection: its layer and token.
        kind: "attention" or "cross_attention".
        name: "query", "key" or "value".
        feature: which one of all heads' features, side by side.
    """
    attention = selection.attention(trace)
    width = {"query": attention.q, "key": attention.k, "value": attention.v}[name].shape[-1]
    at_layer = f"{selection.layer_name}.{kind}"
    return linear_receipt(
        trace,
        layer=f"{selection.side}.blocks.{selection.layer}.{kind}.{name}",
        input_address=f"{at_layer}.in",
        output_address=f"{at_layer}.{name}",
        token=selection.token,
        feature=feature,
        title=f"feature {feature % width} of the {name}, as it is projected",
        line=_PROJECTING.get((type(attention.layer).__name__, name), _PROJECTING_TOGETHER),
    )


def matrix_receipt(
    trace: Trace, selection: Selection, part: str, *, token: int, feature: int
) -> Receipt:
    """One number of the feed-forward before or after its units.

    Args:
        trace: the sentence.
        selection: its layer.
        part: the matrix: "up", "gate" or "down".
        token: the token.
        feature: the unit of up or gate, the feature that down writes.
    """
    at_layer = f"{selection.layer_name}.feed_forward"
    writes = part == "down"
    title = f"unit {feature}, what its {'gate' if part == 'gate' else 'row'} finds"
    return linear_receipt(
        trace,
        layer=f"{selection.side}.blocks.{selection.layer}.feed_forward.{part}",
        input_address=f"{at_layer}.units" if writes else f"{at_layer}.in",
        output_address=at_layer if writes else f"{at_layer}.{part}",
        token=token,
        feature=feature,
        title=f"feature {feature} of what the layer writes" if writes else title,
        line="self.down(self.activation(",
    )


def _row_of(module: nn.Linear, feature: int) -> tuple[Tensor, str]:
    facts = linear_facts(module)
    match facts:
        case LoRAFacts(active=True, merged=False):
            return cast("Any", module).folded()[feature], f"(W + LoRA)[{feature}]"
        case LoRAFacts() | LinearFacts() | UnknownFacts():
            return module.weight[feature], f"W[{feature}]"
        case _:
            assert_never(facts)


def _holding(holder: nn.Module, line: str) -> Any:
    """The class that holds a line of source: the module's own, or one that it is made from."""
    for kind in type(holder).__mro__:
        if kind.__module__.startswith("pellucid") and line in inspect.getsource(kind):
            return kind
    raise LookupError(f"{type(holder).__name__} holds no line {line!r}")
