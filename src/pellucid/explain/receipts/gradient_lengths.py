"""Receipts of gradients along the stream: their lengths, and how a sum passes them on."""

from __future__ import annotations

from pellucid.catalogue import message
from pellucid.explain.chapter_types import Receipt
from pellucid.explain.receipts.builder import ReceiptBuilder, cell
from pellucid.explain.residual_sums import list_sums
from pellucid.explain.selection import Selection
from pellucid.explain.trace_types import Trace
from pellucid.typed import length


def length_receipt(trace: Trace, selection: Selection) -> Receipt:
    """The length of the gradient that reaches a token's state."""
    build, address = ReceiptBuilder(trace), f"{selection.layer_name}.residual.grad"
    g = build.vector("g", address, selection.token)
    return build.gradient(
        g.address,
        title=message(
            "receipts.length-of-the-gradient-at",
            query=selection.query(trace),
            layer=selection.layer,
        ),
        formula="√(Σ g²)",
        expression=(g @ g).sqrt(),
        model=length(trace[g.address]),
    )


def split_receipt(trace: Trace, selection: Selection) -> Receipt | None:
    """The gradient before a sum: the gradient after it, plus the sublayer's own.

    None if the layer's rule does not add, or adds both sublayers at once.
    """
    stream_sums = list_sums(trace, selection.side, selection.layer)
    if not stream_sums or len(stream_sums[0].terms) > 1:
        return None
    first, layer = stream_sums[0], selection.layer_name
    # a norm on the output is not the part that reads the stream
    output_norm = first.terms[0][1].endswith("attention_norm")
    entry = next(
        f"{layer}.{name}"
        for name in ("attention_norm.before.in", "attention_norm.in", "attention.in")
        if f"{layer}.{name}" in trace.addresses()
        and not (output_norm and name.startswith("attention_norm"))
    )
    build, place = ReceiptBuilder(trace), (selection.token, selection.feature)
    bypass, input_gradient = f"{first.after}.grad", f"{entry}.grad"
    return build.gradient(
        cell(f"{first.before}.grad", *place),
        title=message(
            "receipts.feature-of-before-and-after",
            feature=selection.feature,
            query=selection.query(trace),
        ),
        formula=f"{bypass} + {input_gradient}",
        expression=build.number(bypass, bypass, *place)
        + build.number(input_gradient, input_gradient, *place),
        source=first.source,
    )
