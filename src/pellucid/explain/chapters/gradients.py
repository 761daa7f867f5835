"""Gradients: how far the loss reaches back, through every layer and every matrix."""

from __future__ import annotations

from pellucid.explain.addresses.recompute import receipt_or_none
from pellucid.explain.addresses.syntax import stack_letter
from pellucid.explain.chapter_types import Bars, Content, Table
from pellucid.explain.receipts.gradient_lengths import (
    length_receipt,
    split_receipt,
)
from pellucid.explain.residual_sums import why_no_sums
from pellucid.explain.selection import Selection
from pellucid.explain.trace_types import Trace
from pellucid.typed import length


def build(trace: Trace, selection: Selection) -> Content:
    """The stream's gradients from the loss to the embedding; the matrices of the layer."""
    norms, lengths = trace.backward().norms, stream_norms(trace)
    first, last = lengths[0][1], lengths[-1][1]
    reason = why_no_sums(trace, selection.side)
    n_without = sum(name not in norms for name, _ in trace.model.named_parameters())
    return Content(
        sentence=f"The same layers from the end to the beginning: the gradient at the last state "
        f"has a length of {first:.4g}, at the first {last:.4g}. {_describe_trend(first, last)}",
        pictures=(
            Bars(
                title="length of dL/dh, from the loss back to the embedding",
                names=tuple(name for name, _ in lengths),
                values=tuple(norm for _, norm in lengths),
                unit="‖dL/dh‖",
            ),
            _table(trace, selection),
        ),
        receipts=(
            length_receipt(trace, selection),
            receipt_or_none(trace, "grad_norm") if norms else None,
            split_receipt(trace, selection),
        ),
        notes=(
            "the model runs in evaluation mode, as in the forward chapters: without dropout",
            f"the gradient does not simply pass by here: {reason}" if reason else None,
            f"frozen or not used, and without a gradient: {n_without}" if n_without else None,
        ),
    )


def stream_norms(trace: Trace) -> list[tuple[str, float]]:
    """Each state's address and the length of its gradient, from the loss to the ids."""
    gradients = trace.backward()
    return [
        (f"{stack_letter(side)}{place}.residual", length(grad))
        for side in reversed(trace.sides)
        for place, grad in reversed(list(enumerate(gradients.stream(side))))
    ]


def _describe_trend(first: float, last: float) -> str:
    if not first or not last:
        return "Nothing comes back."
    share = last / first
    if share < 0.01:
        return "It vanishes on the way: little of this sentence reaches the first layers."
    if share > 100:
        return "It grows on the way: what suits the last layer may be too large for the first."
    return "On the way it neither vanishes nor grows out of hand."


def _table(trace: Trace, selection: Selection) -> Table:
    """The selected layer's parameters, and those before and behind all layers."""
    gradients = trace.backward()
    prefix = f"{selection.side}.blocks.{selection.layer}."
    names = [n for n in gradients.norms if ".blocks." not in n or n.startswith(prefix)]
    rows: list[tuple[str | float, ...]] = []
    for name in sorted(names, key=lambda name: not name.startswith(prefix)):
        norm, size = gradients.norms[name], gradients.sizes[name]
        rows.append((name.removeprefix(prefix), norm, size, norm / size if size else "w is 0"))
    return Table(
        title=f"gradients of the weights of {selection.layer_name}, then of both ends",
        columns=("weight", "‖g‖", "‖w‖", "‖g‖ / ‖w‖"),
        rows=tuple(rows),
    )
