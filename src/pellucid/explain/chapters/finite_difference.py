"""Nudge: one weight moved a little both ways, and the loss measured, beside its gradient."""

from __future__ import annotations

import torch

from pellucid.explain import finite_difference
from pellucid.explain.backward_segments import is_large
from pellucid.explain.chapter_types import Chapter, Lines, Picture, Place, Receipt, Table
from pellucid.explain.chapters.backward import chapter_without_loss
from pellucid.explain.chapters.loss import no_loss
from pellucid.explain.receipts.gradients import weight_gradient_receipt
from pellucid.explain.receipts.optimiser_step import nudge_receipt
from pellucid.explain.selection import SelectedWeight, select_place, select_weight
from pellucid.explain.trace_types import Trace
from pellucid.typed import to_list

_MOVES_PER_SIDE = 4
_N_LARGEST = 8


def build(trace: Trace, place: Place) -> Chapter:
    """The measured slope beside the gradient; the loss along the weight; the largest gradients."""
    reason = no_loss(trace)
    if reason is not None:
        return chapter_without_loss(reason)
    weight, selection = select_weight(trace, place), select_place(trace, place)
    gradient, step = (
        float(trace[weight.address(".grad")]),
        finite_difference.choose_step(trace, weight),
    )
    loss_below, unmoved, loss_above = finite_difference.losses(trace, weight, (-step, 0.0, step))
    receipts: list[Receipt] = [nudge_receipt(trace, weight, loss_below, loss_above, step)]
    local = weight_gradient_receipt(trace, selection, weight)
    if local is not None:
        receipts.append(local)
    pictures: list[Picture] = [
        _table(trace, weight, (loss_below, unmoved, loss_above), (gradient, step)),
        _largest(trace, weight),
    ]
    if not is_large(trace):
        pictures.insert(1, _draw_losses(trace, weight, unmoved, gradient))
    digits = str(finite_difference.precision(trace)).removeprefix("torch.")
    return Chapter(
        sentence=f"The gradient says that moving {weight.address()} by h changes the loss by "
        f"{gradient:.4g} h. So move it, by {step:.2g} up and down, and look: the loss changes by "
        f"{(loss_above - loss_below) / (2 * step):.4g} h.",
        pictures=tuple(pictures),
        receipts=tuple(receipts),
        notes=(
            f"the losses are computed in {digits}; a difference of two losses is no exact slope, "
            "and the tolerance says how exact it can be",
        ),
    )


def _table(
    trace: Trace,
    weight: SelectedWeight,
    losses: tuple[float, float, float],
    slope: tuple[float, float],
) -> Table:
    w, (gradient, step) = float(trace[weight.address()]), slope
    rows: list[tuple[str | float | int, ...]] = []
    for name, move, loss in zip(("w - h", "w", "w + h"), (-step, 0.0, step), losses, strict=True):
        rows.append(
            (name, f"{w + move:.9f}", f"{loss:.12f}", f"{losses[1] + gradient * move:.12f}")
        )
    return Table(
        title=f"{weight.address()}, moved by {step:.9g}",
        columns=("", "weight", "loss, measured", "loss by the gradient"),
        rows=tuple(rows),
    )


def _draw_losses(
    trace: Trace, weight: SelectedWeight, unmoved_loss: float, gradient: float
) -> Lines:
    """The loss for larger moves, where it bends away from the straight line."""
    size = float(trace[weight.name].double().square().mean().sqrt())
    moves = [size * 2 * n / _MOVES_PER_SIDE for n in range(-_MOVES_PER_SIDE, _MOVES_PER_SIDE + 1)]
    loss_changes = [loss - unmoved_loss for loss in finite_difference.losses(trace, weight, moves)]
    return Lines(
        title="what the loss changes by as this weight alone moves, and by its gradient",
        names=("measured", "by the gradient"),
        x=tuple(moves),
        series=(tuple(loss_changes), tuple(gradient * move for move in moves)),
        x_unit="move",
        unit="nats",
    )


def _largest(trace: Trace, weight: SelectedWeight) -> Table:
    """Where in the matrix the gradient is largest: weights worth choosing."""
    gradient, values = trace[f"{weight.name}.grad"], trace[weight.name]
    order = gradient.abs().flatten().topk(min(_N_LARGEST, gradient.numel())).indices
    rows: list[tuple[str | float | int, ...]] = []
    for place in to_list(torch.stack(torch.unravel_index(order, gradient.shape), -1)):
        index = tuple(place)
        rows.append((*index, float(values[index]), float(gradient[index])))
    axis_names = ("row", "column")[: gradient.ndim]
    return Table(
        title=f"the largest gradients of {weight.name}",
        columns=(*axis_names, "weight", "gradient"),
        rows=tuple(rows),
    )
