"""Receipts of the units of a feed-forward: the activation of one, and its gate."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import assert_never

from pellucid.explain.chapter_types import Receipt
from pellucid.explain.experts import dense_facts
from pellucid.explain.expressions import Expression, apply, constant
from pellucid.explain.receipts.builder import ReceiptBuilder, cell
from pellucid.explain.selection import Selection
from pellucid.explain.trace_types import Trace
from pellucid.model.facts import ActivationName, ClampedFeedForwardFacts, FeedForwardFacts


def _gelu(x: Expression) -> Expression:
    return 0.5 * x * (1.0 + apply("erf", x / constant(math.sqrt(2), "√2")))


def _gelu_tanh(x: Expression) -> Expression:
    inner = constant(math.sqrt(2 / math.pi), "√(2/π)") * (x + 0.044715 * x**3.0)
    return 0.5 * x * (1.0 + inner.tanh())


_ACTIVATIONS: dict[ActivationName, tuple[str, Callable[[Expression], Expression]]] = {
    "gelu": ("0.5 x (1 + erf(x / √2))", _gelu),
    "gelu_tanh": ("0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³)))", _gelu_tanh),
    "quick_gelu": ("x / (1 + exp(-1.702 x))", lambda x: x / (1.0 + (-1.702 * x).exp())),
    "sigmoid": ("1 / (1 + exp(-x))", lambda x: 1.0 / (1.0 + (-x).exp())),
    "tanh": ("tanh(x)", lambda x: x.tanh()),
    "silu": ("x / (1 + exp(-x))", lambda x: x / (1.0 + (-x).exp())),
    "relu": ("max(x, 0)", lambda x: apply("max", x, 0.0)),
    "relu_squared": ("max(x, 0)²", lambda x: apply("max", x, 0.0) ** 2.0),
}


def activation_receipt(
    trace: Trace, selection: Selection, unit: int, holder: str = "feed_forward"
) -> Receipt | None:
    """A unit's activation, times its gate if it has one; None without a known activation.

    Args:
        trace: the sentence.
        selection: its layer and token.
        unit: which one.
        holder: the feed-forward in the layer, such as feed_forward.experts.3.
    """
    block = trace.stack_pass(selection.side).stack.blocks[selection.layer]
    facts = dense_facts(block, holder)
    build, address = ReceiptBuilder(trace), f"{selection.layer_name}.{holder}"

    def number(name: str, part: str) -> Expression:
        return build.number(name, f"{address}.{part}", selection.token, unit)

    expression: Expression
    match facts:
        case FeedForwardFacts(activation=activation, gate=gate):
            if activation is None:
                return None
            formula, activate = _ACTIVATIONS[activation]
            expression = activate(number("x", "up" if gate is None else "gate"))
            if gate is not None:
                formula, expression = f"{formula} × up", expression * number("up", "up")
        case ClampedFeedForwardFacts():
            formula = "(u + 1) g / (1 + exp(-slope g)); g = min(gate, limit), |u| <= limit"
            expression = _clamped(number("gate", "gate"), number("up", "up"), facts)
        case None:
            return None
        case _:
            assert_never(facts)
    return build.receipt(
        cell(f"{address}.units", selection.token, unit),
        title=f"unit {unit}, its output",
        formula=formula,
        expression=expression,
        source=(type(block.get_submodule(holder)), "self.activation("),
    )


def _clamped(gate: Expression, up: Expression, facts: ClampedFeedForwardFacts) -> Expression:
    g = apply("min", gate, facts.limit)
    u = apply("max", apply("min", up, facts.limit), -facts.limit)
    return (u + 1.0) * g / (1.0 + (-(constant(facts.slope, "slope") * g)).exp())
