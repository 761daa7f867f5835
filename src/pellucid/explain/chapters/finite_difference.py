"""Nudge: one weight moved a little up and down; the change of the loss, and its gradient."""

from __future__ import annotations

import torch

from pellucid.catalogue import message, messages
from pellucid.explain import finite_difference
from pellucid.explain.addresses.recompute import receipt_or_none
from pellucid.explain.backward_segments import is_large
from pellucid.explain.chapter_types import Content, Lines, Table
from pellucid.explain.receipts.optimiser_step import nudge_receipt
from pellucid.explain.selection import SelectedWeight, Selection, select_weight
from pellucid.explain.trace_types import Trace
from pellucid.typed import to_list

_MOVES_PER_SIDE = 3
_N_LARGEST = 8


def build(trace: Trace, selection: Selection) -> Content:
    """The measured slope and the gradient; the loss along the weight; the largest gradients."""
    weight = select_weight(trace, selection)
    gradient, step = (
        float(trace[weight.address(".grad")]),
        finite_difference.choose_step(trace, weight),
    )
    moves = (-step, 0.0, step)
    losses = finite_difference.losses(trace, weight, moves)
    loss_below, unmoved, loss_above = losses
    w, digits = float(trace[weight.address()]), str(finite_difference.precision(trace))
    return Content(
        sentence=message(
            "finite_difference.the-gradient-says-that-moving",
            address=weight.address(),
            gradient=gradient,
            step=step,
            change=(loss_above - loss_below) / (2 * step),
        ),
        pictures=(
            Table(
                title=message("finite_difference.moved-by", address=weight.address(), step=step),
                columns=(
                    "",
                    message("word.weight"),
                    message("finite_difference.loss-measured"),
                    message("finite_difference.loss-by-the-gradient"),
                ),
                rows=tuple(
                    (name, f"{w + move:.9f}", f"{loss:.12f}", f"{unmoved + gradient * move:.12f}")
                    for name, move, loss in zip(("w - h", "w", "w + h"), moves, losses, strict=True)
                ),
            ),
            None if is_large(trace) else _draw_losses(trace, weight, unmoved, gradient),
            _list_largest(trace, weight),
        ),
        receipts=(
            nudge_receipt(trace, weight, loss_below, loss_above, step),
            receipt_or_none(trace, weight.address(".grad")),
        ),
        notes=(
            message(
                "finite_difference.the-losses-are-computed-in",
                dtype=digits.removeprefix("torch."),
            ),
        ),
    )


def _draw_losses(
    trace: Trace, weight: SelectedWeight, unmoved_loss: float, gradient: float
) -> Lines:
    """The loss for larger moves, as it bends away from the straight line."""
    size = float(trace[weight.name].double().square().mean().sqrt())
    larger = [size * 2 * n / _MOVES_PER_SIDE for n in range(1, _MOVES_PER_SIDE + 1)]
    moves = [*(-move for move in reversed(larger)), *larger]
    changes = [loss - unmoved_loss for loss in finite_difference.losses(trace, weight, moves)]
    moves.insert(_MOVES_PER_SIDE, 0.0)
    changes.insert(_MOVES_PER_SIDE, 0.0)
    return Lines(
        title=message("finite_difference.change-of-the-loss-as"),
        names=messages("word.measured", "finite_difference.by-the-gradient"),
        x=tuple(moves),
        series=(tuple(changes), tuple(gradient * move for move in moves)),
        x_unit=message("word.move"),
        unit="nats",
    )


def _list_largest(trace: Trace, weight: SelectedWeight) -> Table:
    """The weights of the matrix with the largest gradients: they are worth a look."""
    gradient, values = trace[f"{weight.name}.grad"], trace[weight.name]
    order = gradient.abs().flatten().topk(min(_N_LARGEST, gradient.numel())).indices
    places = torch.stack(torch.unravel_index(order, gradient.shape), -1)
    return Table(
        title=message("finite_difference.the-largest-gradients-of", name=weight.name),
        columns=(
            *messages("word.row", "word.column")[: gradient.ndim],
            message("word.weight"),
            message("word.gradient"),
        ),
        rows=tuple(
            (*index, float(values[index]), float(gradient[index]))
            for index in map(tuple, to_list(places))
        ),
    )
