"""Gradients: how far the loss reaches back, through every layer and every matrix."""

from __future__ import annotations

from pellucid.catalogue import message
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
        sentence=message(
            "gradients.the-same-layers-from-the",
            first=first,
            last=last,
            trend=_describe_trend(first, last),
        ),
        pictures=(
            Bars(
                title=message("gradients.length-of-dl-dh-from"),
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
            message("gradients.the-model-runs-in-evaluation"),
            message("gradients.the-gradient-does-not-simply", reason=reason) if reason else None,
            message("gradients.frozen-or-not-used-and", n_without=n_without) if n_without else None,
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
        return message("gradients.nothing-comes-back")
    share = last / first
    if share < 0.01:
        return message("gradients.it-vanishes-on-the-way")
    if share > 100:
        return message("gradients.it-grows-on-the-way")
    return message("gradients.on-the-way-it-neither")


def _table(trace: Trace, selection: Selection) -> Table:
    """The selected layer's parameters, and those before and behind all layers."""
    gradients = trace.backward()
    prefix = f"{selection.side}.blocks.{selection.layer}."
    names = [n for n in gradients.norms if ".blocks." not in n or n.startswith(prefix)]
    rows: list[tuple[str | float, ...]] = []
    for name in sorted(names, key=lambda name: not name.startswith(prefix)):
        norm, size = gradients.norms[name], gradients.sizes[name]
        rows.append(
            (name.removeprefix(prefix), norm, size, norm / size if size else message("word.w-is-0"))
        )
    return Table(
        title=message("gradients.gradients-of-the-weights-of", layer_name=selection.layer_name),
        columns=(message("word.weight"), "‖g‖", "‖w‖", "‖g‖ / ‖w‖"),
        rows=tuple(rows),
    )
