"""Receipts of gradients along the stream: their lengths, and how a sum passes them on."""

from __future__ import annotations

import torch

from pellucid.explain.chapter_types import Receipt
from pellucid.explain.expressions import Number
from pellucid.explain.receipts.builder import (
    added,
    apply,
    at,
    number,
    product,
    receipt,
    row,
    source_line,
    vector,
)
from pellucid.explain.receipts.gradients import autograd_line
from pellucid.explain.residual_sums import list_sums
from pellucid.explain.selection import Selection
from pellucid.explain.trace_types import Trace
from pellucid.typed import length


def length_receipt(trace: Trace, selection: Selection) -> Receipt:
    """How long the gradient is that reaches a token's state."""
    address = at(f"{selection.layer_name}.residual.grad", selection.token)
    parts = vector(trace, address, "g")
    return receipt(
        trace,
        title=f"length of what reaches {selection.query(trace)} before layer {selection.layer}",
        formula="√(Σ g²)",
        expression=apply("sqrt", product(parts, parts)),
        address=address,
        source=autograd_line(),
        model=length(trace[address]),
        least=0.0,
    )


def norm_receipt_of_all(trace: Trace) -> Receipt:
    """The length of all gradients together, which clipping looks at."""
    norms = torch.tensor(list(trace.backward().norms.values()), dtype=torch.float64)
    lengths = row(norms, "lengths")
    return receipt(
        trace,
        title="all gradients together",
        formula="√(Σ ‖g‖²) over all parameters",
        expression=apply("sqrt", product(lengths, lengths)),
        address="grad_norm",
        source=autograd_line(),
        least=0.0,
    )


def split_receipt(trace: Trace, selection: Selection) -> Receipt | None:
    """Before a sum the gradient is that behind it, undivided, and what the sublayer passes back.

    None where the layer's rule does not add, or adds both sublayers at once.
    """
    stream_sums = list_sums(trace, selection.side, selection.layer)
    if not stream_sums or len(stream_sums[0].terms) > 1:
        return None
    first, layer = stream_sums[0], selection.layer_name
    entry = next(
        name
        for name in ("attention_norm.before.in", "attention_norm.in", "attention.in")
        if f"{layer}.{name}" in trace.addresses() and not _is_behind(first.terms[0][1], name)
    )
    token, feature = selection.token, selection.feature
    bypass_gradient: Number = number(trace, at(f"{first.after}.grad", token, feature), "past it")
    sublayer_gradient = number(trace, at(f"{layer}.{entry}.grad", token, feature), "through it")
    return receipt(
        trace,
        title=f"feature {feature} of {selection.query(trace)}, before and behind the attention",
        formula="past the attention + through it",
        expression=added(bypass_gradient, sublayer_gradient),
        address=at(f"{first.before}.grad", token, feature),
        source=source_line(*first.source),
        least=0.0,
    )


def _is_behind(written_address: str, entry: str) -> bool:
    """Whether a norm stands behind the sublayer, and so is not what reads the stream."""
    return written_address.endswith("attention_norm") and entry.startswith("attention_norm")
