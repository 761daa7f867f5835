"""Receipts of linear layers: a row of a matrix times its input.

If a matrix has a LoRA update, the row includes it, and the name of the row says so.
"""

from __future__ import annotations

import inspect
from typing import Any, assert_never, cast

from torch import Tensor, nn

from pellucid.explain.chapter_types import Receipt
from pellucid.explain.part_facts import projection_input
from pellucid.explain.receipts.builder import ReceiptBuilder, cell, row
from pellucid.explain.selection import Selection
from pellucid.explain.trace_types import Trace
from pellucid.model.facts import LinearFacts, LoRAFacts, UnknownFacts, linear_facts

#: The line that projects, by the kind of attention; other kinds have one line for all three.
_PROJECTION_LINES = {
    ("MultiHeadAttention", "query"): "self.query(x)",
    ("MultiHeadAttention", "key"): "self.key(x)",
    ("MultiHeadAttention", "value"): "self.value(x)",
    ("MultiHeadAttention", "output_gate"): "self.output_gate(x)",
    ("LatentAttention", "query_latent"): "self.query_latent(x)",
    ("LatentAttention", "query"): "self.query(x)",
    ("LatentAttention", "latent"): "self.latent(x)",
    ("LatentAttention", "rotated_key"): "self.rotated_key(x)",
    ("LatentAttention", "key"): "self.key(latents)",
    ("LatentAttention", "value"): "self.value(latents)",
    ("CrossAttention", "query"): "self.query(",
}
_JOINT_LINE = "(self.query, self.key"


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
    """W[feature] . x + b.

    Args:
        trace: the sentence.
        layer: the name of the linear layer in the model.
        input_address: of its input, (time, features).
        output_address: of its output.
        token: the token.
        feature: of the output.
        title: what the number is.
        line: a text in the line that calls the layer, in the module that holds it.
    """
    build, module = ReceiptBuilder(trace), cast("nn.Linear", trace.model.get_submodule(layer))
    x = build.vector("x", input_address, token)
    weights, name = _read_row(module, feature)
    w = row(weights, name, cell(f"{layer}.weight", feature) if name.startswith("W") else "")
    expression, formula = w @ x, f"{name} · x"
    if cast("Tensor | None", module.bias) is not None:
        expression += build.number("b", f"{layer}.bias", feature)
        formula += " + b"
    holder = trace.model.get_submodule(layer.rpartition(".")[0])
    return build.receipt(
        cell(output_address, token, feature),
        title=title,
        formula=formula,
        expression=expression,
        source=(_find_class(holder, line), line),
    )


def projection_receipt(
    trace: Trace, selection: Selection, kind: str, name: str, *, feature: int
) -> Receipt:
    """One number of a projected query, key or value.

    Args:
        trace: the sentence.
        selection: its layer and token.
        kind: "attention" or "cross_attention".
        name: the projection, such as "query" or "output_gate".
        feature: which one of all heads' features, side by side.
    """
    attention = selection.attention(trace)
    heads = {"query": attention.q, "key": attention.k, "value": attention.v}
    rows = cast("nn.Linear", attention.layer.get_submodule(name)).out_features
    width = rows // heads[name].shape[1] if name in heads else rows
    address = f"{selection.layer_name}.{kind}"
    return linear_receipt(
        trace,
        layer=f"{selection.side}.blocks.{selection.layer}.{kind}.{name}",
        input_address=f"{address}.{projection_input(attention.layer, name)}",
        output_address=f"{address}.{name}",
        token=selection.token,
        feature=feature,
        title=f"feature {feature % width} of the projected {name}",
        line=_PROJECTION_LINES.get((type(attention.layer).__name__, name), _JOINT_LINE),
    )


def matrix_receipt(
    trace: Trace,
    selection: Selection,
    part: str,
    *,
    token: int,
    feature: int,
    holder: str = "feed_forward",
) -> Receipt:
    """One number of a feed-forward before or after its units.

    Args:
        trace: the sentence.
        selection: its layer.
        part: the matrix: "up", "gate" or "down".
        token: the token.
        feature: the unit of up or gate, the output feature of down.
        holder: the feed-forward in the layer, such as feed_forward.experts.3.
    """
    address = f"{selection.layer_name}.{holder}"
    titles = {
        "up": f"unit {feature}, the product of its row",
        "gate": f"unit {feature}, the product of its gate's row",
        "down": f"feature {feature} of the layer's output",
    }
    return linear_receipt(
        trace,
        layer=f"{selection.side}.blocks.{selection.layer}.{holder}.{part}",
        input_address=f"{address}.units" if part == "down" else f"{address}.in",
        output_address=address if part == "down" else f"{address}.{part}",
        token=token,
        feature=feature,
        title=titles[part],
        line="self.down(",
    )


def _read_row(module: nn.Linear, feature: int) -> tuple[Tensor, str]:
    facts = linear_facts(module)
    match facts:
        case LoRAFacts(active=True, merged=False):
            return cast("Any", module).folded()[feature], f"(W + LoRA)[{feature}]"
        case LoRAFacts() | LinearFacts() | UnknownFacts():
            return module.weight[feature], f"W[{feature}]"
        case _:
            assert_never(facts)


def _find_class(holder: nn.Module, line: str) -> Any:
    """The class that holds a line of source: the module's own, or one of its base classes."""
    for kind in type(holder).__mro__:
        if kind.__module__.startswith("pellucid") and line in inspect.getsource(kind):
            return kind
    raise LookupError(f"{type(holder).__name__} holds no line {line!r}")
