"""Receipts of an optimiser step: moments, the weight after it, a finite difference."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from pellucid.explain import finite_difference, optimiser_step
from pellucid.explain.chapter_types import Receipt
from pellucid.explain.expressions import Apply, Expression, Number, Vector, constant
from pellucid.explain.optimiser_step import StepSettings
from pellucid.explain.receipts.builder import TOLERANCES, ReceiptBuilder
from pellucid.explain.selection import SelectedWeight
from pellucid.explain.trace_types import Trace
from pellucid.maths.optimisers import adamw_step
from pellucid.optim import Muon


def momentum_receipt(trace: Trace, weight: SelectedWeight, settings: StepSettings) -> Receipt:
    """Muon's m <- mu m + g."""
    gradient, gradient_text = _clipped(trace, weight, settings)
    old_moment = _moment_before(settings.m, weight, "m")
    return ReceiptBuilder(trace).gradient(
        weight.address(".m"),
        title="m: the sum of all gradients, in which older ones fade",
        formula=f"μ × m + {gradient_text}",
        expression=constant(settings.beta1, "μ") * old_moment + gradient,
        source=(Muon, "momentum = torch.stack(buffers) * mu + grads"),
    )


def muon_receipt(trace: Trace, weight: SelectedWeight, settings: StepSettings) -> Receipt:
    """w <- w (1 - lr decay) - lr sqrt(max(1, rows / columns)) d."""
    build, (rows, columns) = ReceiptBuilder(trace), trace[weight.name].shape
    w, lr = build.number("w", weight.address()), constant(settings.learning_rate, "lr")
    tall = constant(max(1.0, rows / columns), "max(1, rows / columns)")
    step = lr * tall.sqrt() * build.number("d", weight.address(".direction"))
    return build.gradient(
        weight.address(".next"),
        title=f"{weight.address()} after the step",
        formula="w × (1 - lr × decay) - lr × √max(1, rows / columns) × d",
        expression=w * (1.0 - lr * constant(settings.weight_decay, "decay")) - step,
        source=(Muon, "new_weights = weights * (1 - lr"),
    )


def moment_receipts(
    trace: Trace, weight: SelectedWeight, settings: StepSettings
) -> tuple[Receipt, Receipt]:
    """m <- beta1 m + (1 - beta1) g and v <- beta2 v + (1 - beta2) g^2."""
    g, text = _clipped(trace, weight, settings)
    m, v = (
        ReceiptBuilder(trace).gradient(
            weight.address(f".{name}"),
            title=f"{name}: the running {statistic} of the gradient",
            formula=f"β × {name} + (1 - β) × {term_text}",
            expression=constant(beta, "β") * _moment_before(moment, weight, name)
            + (1.0 - constant(beta, "β")) * term,
            source=(adamw_step, f"{name} = beta"),
        )
        for name, statistic, beta, moment, term, term_text in (
            ("m", "mean", settings.beta1, settings.m, g, text),
            ("v", "mean square", settings.beta2, settings.v, g * g, f"{text}²"),
        )
    )
    return m, v


def next_receipt(trace: Trace, weight: SelectedWeight, settings: StepSettings) -> Receipt:
    """w <- w - lr decay w - lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)."""
    build = ReceiptBuilder(trace)
    w, lr = build.number("w", weight.address()), constant(settings.learning_rate, "lr")
    decay = lr * constant(settings.weight_decay, "decay") * w
    return build.gradient(
        weight.address(".next"),
        title=f"{weight.address()} after the step",
        formula="w - lr × decay × w - lr × (m / (1 - β₁ᵗ)) / (√(v / (1 - β₂ᵗ)) + eps)",
        expression=w - decay - lr * direction(trace, weight, settings),
        source=(adamw_step, "return w - learning_rate * weight_decay * w"),
    )


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
        title=f"the slope of the loss at {weight.address()}, measured",
        formula="(L(w + h) - L(w - h)) / 2h",
        expression=difference / (2.0 * constant(step, "h")),
        source=(finite_difference.losses, "moved_matrix[weight.index] += move"),
    )
    largest_grad = float(trace[f"{weight.name}.grad"].abs().max())
    eps = torch.finfo(finite_difference.precision(trace)).eps
    rounding = 4 * eps * max(1.0, abs(loss_above)) / step
    tolerance = rounding + step**2 + TOLERANCES.get(trace.dtype, 1e-5) * largest_grad
    return replace(slope_receipt, tolerance=tolerance / max(1.0, abs(slope_receipt.model)))


def prefix_addresses(receipt: Receipt, prefix: str) -> Receipt:
    """A receipt of another trace, with its addresses as this trace names them."""

    def prefix_tree(tree: Expression) -> Expression:
        match tree:
            case Apply(name, parts):
                return Apply(name, tuple(map(prefix_tree, parts)))
            case Number() | Vector():
                return replace(tree, address=prefix + tree.address) if tree.address else tree

    expression = prefix_tree(receipt.expression)
    return replace(receipt, address=prefix + receipt.address, expression=expression)


def _clipped(
    trace: Trace, weight: SelectedWeight, settings: StepSettings
) -> tuple[Expression, str]:
    """The gradient as the optimiser reads it: divided if the run clips and it is too long."""
    build = ReceiptBuilder(trace)
    gradient = build.number("g", weight.address(".grad"))
    if optimiser_step.divisor(trace, settings) == 1.0 or settings.clip_norm is None:
        return gradient, "g"
    norm, limit = build.number("‖all g‖", "grad_norm"), constant(settings.clip_norm, "clip norm")
    return gradient / (norm / limit), "(g / clip)"


def _moment_before(moment: Tensor | None, weight: SelectedWeight, name: str) -> Number:
    return constant(0.0 if moment is None else float(moment[weight.index]), f"{name} before")
