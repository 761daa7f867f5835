"""Gradients: how far the loss reaches back, through every layer and every matrix."""

from __future__ import annotations

from pellucid.explain.addresses.syntax import stack_letter
from pellucid.explain.chapter_types import Bars, Chapter, Place, Receipt, Table
from pellucid.explain.chapters.backward import chapter_without_loss
from pellucid.explain.chapters.loss import no_loss
from pellucid.explain.receipts.gradient_lengths import (
    length_receipt,
    norm_receipt_of_all,
    split_receipt,
)
from pellucid.explain.residual_sums import why_no_sums
from pellucid.explain.selection import Selection, select_place
from pellucid.explain.trace_types import Trace
from pellucid.typed import length


def build(trace: Trace, place: Place) -> Chapter:
    """The stream's gradients from the loss to the embedding; the matrices of the chosen layer."""
    selection = select_place(trace, place)
    reason = no_loss(trace)
    if reason is not None:
        return chapter_without_loss(reason)
    gradients = trace.backward()
    lengths = stream_norms(trace)
    first, last = lengths[0][1], lengths[-1][1]
    receipts: list[Receipt] = [length_receipt(trace, selection)]
    if gradients.norms:
        receipts.append(norm_receipt_of_all(trace))
    split = split_receipt(trace, selection)
    if split is not None:
        receipts.append(split)
    no_sum_reason = why_no_sums(trace, selection.side)
    frozen = [name for name in dict(trace.model.named_parameters()) if name not in gradients.norms]
    return Chapter(
        sentence=f"The same layers from the end to the beginning: what reaches the last state has "
        f"a length of {first:.4g}, what reaches the first {last:.4g}. "
        f"{_describe_trend(first, last)}",
        pictures=(
            Bars(
                title="length of dL/dh, from the loss back to the embedding",
                names=tuple(name for name, _ in lengths),
                values=tuple(norm for _, norm in lengths),
                unit="‖dL/dh‖",
            ),
            _table(trace, selection),
        ),
        receipts=tuple(receipts),
        notes=(
            "the model is gone through in evaluation mode, as the forward chapters are: without "
            "dropout",
            *(
                (f"the gradient does not simply pass by here: {no_sum_reason}",)
                if no_sum_reason
                else ()
            ),
            *((f"frozen or not used, and without a gradient: {len(frozen)}",) if frozen else ()),
        ),
    )


def stream_norms(trace: Trace) -> list[tuple[str, float]]:
    """Each state's address and the length of what reaches it, from the loss to the ids."""
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
    """The chosen layer's parameters, and those before and behind all layers."""
    gradients = trace.backward()
    block_prefix = f"{selection.side}.blocks.{selection.layer}."
    names = [
        name for name in gradients.norms if ".blocks." not in name or name.startswith(block_prefix)
    ]
    names.sort(key=lambda name: not name.startswith(block_prefix))
    return Table(
        title=f"gradients of the weights of {selection.layer_name}, then of both ends",
        columns=("weight", "‖g‖", "‖w‖", "‖g‖ / ‖w‖"),
        rows=tuple(
            (
                name.removeprefix(block_prefix),
                gradients.norms[name],
                gradients.sizes[name],
                gradients.norms[name] / gradients.sizes[name]
                if gradients.sizes[name]
                else "w is 0",
            )
            for name in names
        ),
    )
