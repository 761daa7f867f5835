"""Receipts of a step: moments, the weight after it, a finite difference."""

from __future__ import annotations

from dataclasses import replace

import torch

from pellucid.explain import finite_difference, optimiser_step
from pellucid.explain.chapter_types import Receipt
from pellucid.explain.expressions import Apply, Expression, Number, Vector
from pellucid.explain.optimiser_step import StepSettings
from pellucid.explain.receipts.builder import (
    TOLERANCES,
    apply,
    constant,
    number,
    receipt,
    source_line,
)
from pellucid.explain.selection import SelectedWeight
from pellucid.explain.trace_types import Trace
from pellucid.maths.optimisers import adamw_step
from pellucid.optim import Muon


def momentum_receipt(trace: Trace, weight: SelectedWeight, settings: StepSettings) -> Receipt:
    """Muon's m <- mu m + g."""
    gradient, gradient_text = _clipped(trace, weight, settings)
    old_moment = constant(_moment_at(settings.m, weight), "m before")
    return receipt(
        trace,
        title="m: the sum of all gradients, in which older ones fade",
        formula=f"μ × m + {gradient_text}",
        expression=apply("add", apply("mul", constant(settings.beta1, "μ"), old_moment), gradient),
        address=weight.address(".m"),
        source=source_line(Muon, "momentum = torch.stack(buffers) * mu + grads"),
        least=0.0,
    )


def muon_receipt(trace: Trace, weight: SelectedWeight, settings: StepSettings) -> Receipt:
    """w <- w (1 - lr decay) - lr sqrt(max(1, rows / columns)) d."""
    rows, columns = trace[weight.name].shape
    w, lr = number(trace, weight.address(), "w"), constant(settings.learning_rate, "lr")
    decay_factor = apply(
        "sub", constant(1.0), apply("mul", lr, constant(settings.weight_decay, "decay"))
    )
    tall = constant(max(1.0, rows / columns), "max(1, rows / columns)")
    rate = apply("mul", lr, apply("sqrt", tall))
    step = apply("mul", rate, number(trace, weight.address(".direction"), "d"))
    return receipt(
        trace,
        title=f"{weight.address()} after the step",
        formula="w × (1 - lr × decay) - lr × √max(1, rows / columns) × d",
        expression=apply("sub", apply("mul", w, decay_factor), step),
        address=weight.address(".next"),
        source=source_line(Muon, "new_weights = weights * (1 - lr"),
        least=0.0,
    )


def moment_receipts(
    trace: Trace, weight: SelectedWeight, settings: StepSettings
) -> tuple[Receipt, Receipt]:
    """m <- beta1 m + (1 - beta1) g and v <- beta2 v + (1 - beta2) g^2."""
    gradient, gradient_text = _clipped(trace, weight, settings)
    parts = (
        ("m", "mean", settings.beta1, settings.m, gradient, gradient_text),
        (
            "v",
            "mean square",
            settings.beta2,
            settings.v,
            apply("mul", gradient, gradient),
            f"{gradient_text}²",
        ),
    )
    m, v = (
        receipt(
            trace,
            title=f"{name}: the running {statistic} of the gradient",
            formula=f"β × {name} + (1 - β) × {term}",
            expression=apply(
                "add",
                apply(
                    "mul",
                    constant(beta, "β"),
                    constant(_moment_at(old_moment, weight), f"{name} before"),
                ),
                apply("mul", apply("sub", constant(1.0), constant(beta, "β")), new_term),
            ),
            address=weight.address(f".{name}"),
            source=source_line(adamw_step, f"{name} = beta"),
            least=0.0,
        )
        for name, statistic, beta, old_moment, new_term, term in parts
    )
    return m, v


def next_receipt(trace: Trace, weight: SelectedWeight, settings: StepSettings) -> Receipt:
    """w <- w - lr decay w - lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)."""
    w = number(trace, weight.address(), "w")
    lr = constant(settings.learning_rate, "lr")
    decay = apply("mul", apply("mul", lr, constant(settings.weight_decay, "decay")), w)
    step = apply("mul", lr, direction(trace, weight, settings))
    return receipt(
        trace,
        title=f"{weight.address()} after the step",
        formula="w - lr × decay × w - lr × (m / (1 - β₁ᵗ)) / (√(v / (1 - β₂ᵗ)) + eps)",
        expression=apply("sub", apply("sub", w, decay), step),
        address=weight.address(".next"),
        source=source_line(adamw_step, "return w - learning_rate * weight_decay * w"),
        least=0.0,
    )


def direction(trace: Trace, weight: SelectedWeight, settings: StepSettings) -> Expression:
    """The corrected mean over the root of the corrected mean square."""
    m, v = (number(trace, weight.address(f".{part}"), part) for part in ("m", "v"))
    root = apply("sqrt", apply("div", v, correction(settings.beta2, settings.step)))
    numerator = apply("div", m, correction(settings.beta1, settings.step))
    return apply("div", numerator, apply("add", root, constant(settings.eps, "eps")))


def correction(beta: float, step: int) -> Expression:
    """1 - beta^t: what a mean that began at zero still lacks."""
    return apply("sub", constant(1.0), apply("pow", constant(beta, "β"), constant(step, "t")))


def nudge_receipt(
    trace: Trace, weight: SelectedWeight, loss_below: float, numerator: float, step: float
) -> Receipt:
    """(L(w + h) - L(w - h)) / 2h beside the gradient.

    Not exact, and its tolerance says what is left: rounding of the losses over h, h squared, and
    the gradient's own rounding, by the largest gradient of the matrix.
    """
    slope = apply(
        "div",
        apply("sub", constant(numerator, "L(w + h)"), constant(loss_below, "L(w - h)")),
        apply("mul", constant(2.0), constant(step, "h")),
    )
    slope_receipt = receipt(
        trace,
        title=f"the slope of the loss at {weight.address()}, measured",
        formula="(L(w + h) - L(w - h)) / 2h",
        expression=slope,
        address=weight.address(".grad"),
        source=source_line(finite_difference.losses, "moved_matrix[weight.index] += move"),
    )
    largest_grad = float(trace[f"{weight.name}.grad"].abs().max())
    rounding = (
        4 * torch.finfo(finite_difference.precision(trace)).eps * max(1.0, abs(numerator)) / step
    )
    tolerance = rounding + step**2 + TOLERANCES.get(trace.dtype, 1e-5) * largest_grad
    return replace(slope_receipt, tolerance=tolerance / max(1.0, abs(slope_receipt.model)))


def prefix_addresses(receipt_elsewhere: Receipt, prefix: str) -> Receipt:
    """A receipt of another trace, its addresses as this trace names that one."""
    return replace(
        receipt_elsewhere,
        address=prefix + receipt_elsewhere.address,
        expression=_prefix_tree(receipt_elsewhere.expression, prefix),
    )


def _prefix_tree(tree: Expression, prefix: str) -> Expression:
    match tree:
        case Apply(name, parts):
            return Apply(name, tuple(_prefix_tree(part, prefix) for part in parts))
        case Number() | Vector():
            return replace(tree, address=prefix + tree.address) if tree.address else tree


def _clipped(
    trace: Trace, weight: SelectedWeight, settings: StepSettings
) -> tuple[Expression, str]:
    """The gradient as AdamW is given it: divided, where the run clips and this one is too long."""
    gradient = number(trace, weight.address(".grad"), "g")
    if optimiser_step.divisor(trace, settings) == 1.0 or settings.clip_norm is None:
        return gradient, "g"
    share = apply(
        "div", number(trace, "grad_norm", "‖all g‖"), constant(settings.clip_norm, "clip norm")
    )
    return apply("div", gradient, share), "(g / clip)"


def _moment_at(moment: torch.Tensor | None, weight: SelectedWeight) -> float:
    return 0.0 if moment is None else float(moment[weight.index])
