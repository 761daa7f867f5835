"""The direction of AdamW as a tree; the receipt of a finite difference."""

from __future__ import annotations

from dataclasses import replace

import torch

from pellucid.catalogue import message
from pellucid.explain import finite_difference
from pellucid.explain.chapter_types import Receipt
from pellucid.explain.equations.equation import TOLERANCES
from pellucid.explain.expressions import Expression, constant
from pellucid.explain.optimiser_settings import StepSettings
from pellucid.explain.receipts.builder import ReceiptBuilder
from pellucid.explain.selection import SelectedWeight
from pellucid.explain.trace_types import Trace


def direction(trace: Trace, weight: SelectedWeight, settings: StepSettings) -> Expression:
    """The corrected mean over the root of the corrected mean square."""
    build = ReceiptBuilder(trace)
    m, v = (build.number(part, weight.address(f".{part}")) for part in ("m", "v"))
    root = (v / correction(settings.beta2, settings.step)).sqrt()
    return m / correction(settings.beta1, settings.step) / (root + constant(settings.eps, "eps"))


def correction(beta: float, step: int) -> Expression:
    """1 - beta^t: the share of a running mean that began at zero."""
    return 1.0 - constant(beta, "β") ** constant(step, "t")


def nudge_receipt(
    trace: Trace, weight: SelectedWeight, loss_below: float, loss_above: float, step: float
) -> Receipt:
    """(L(w + h) - L(w - h)) / 2h, compared with the gradient.

    It is not exact. The tolerance adds up the rounding of the losses over h, h squared, and the
    rounding of the gradient, by the largest gradient of the matrix.

    Args:
        trace: the sentence.
        weight: the weight that was moved.
        loss_below: the loss at w - h.
        loss_above: the loss at w + h.
        step: h.
    """
    difference = constant(loss_above, "L(w + h)") - constant(loss_below, "L(w - h)")
    slope_receipt = ReceiptBuilder(trace).receipt(
        weight.address(".grad"),
        title=message("receipts.the-slope-of-the-loss", address=weight.address()),
        formula="(L(w + h) - L(w - h)) / 2h",
        expression=difference / (2.0 * constant(step, "h")),
        source=(finite_difference.losses, "moved_matrix[weight.index] += move"),
    )
    largest_grad = float(trace[f"{weight.name}.grad"].abs().max())
    eps = torch.finfo(finite_difference.precision(trace)).eps
    rounding = 4 * eps * max(1.0, abs(loss_above)) / step
    tolerance = rounding + step**2 + TOLERANCES.get(trace.dtype, 1e-5) * largest_grad
    return replace(slope_receipt, tolerance=tolerance / max(1.0, abs(slope_receipt.model)))
