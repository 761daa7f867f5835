"""Receipts of the units of a feed-forward: the activation of one, and its gate."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import assert_never

from pellucid.explain.chapter_types import Receipt
from pellucid.explain.expressions import Expression
from pellucid.explain.receipts.builder import apply, at, constant, number, receipt, source_line
from pellucid.explain.selection import Selection
from pellucid.explain.trace_types import Trace
from pellucid.model.facts import (
    ActivationName,
    FeedForwardFacts,
    UnknownFacts,
    feed_forward_facts,
)

Bend = Callable[[Expression], Expression]


def _gelu(x: Expression) -> Expression:
    inner = apply("erf", apply("div", x, constant(math.sqrt(2), "√2")))
    return apply("mul", apply("mul", constant(0.5), x), apply("add", constant(1.0), inner))


def _gelu_tanh(x: Expression) -> Expression:
    cube = apply("mul", constant(0.044715), apply("pow", x, constant(3.0)))
    inner = apply("mul", constant(math.sqrt(2 / math.pi), "√(2/π)"), apply("add", x, cube))
    bent = apply("add", constant(1.0), apply("tanh", inner))
    return apply("mul", apply("mul", constant(0.5), x), bent)


def _silu(x: Expression) -> Expression:
    return apply("div", x, apply("add", constant(1.0), apply("exp", apply("neg", x))))


def _relu(x: Expression) -> Expression:
    return apply("max", x, constant(0.0))


def _relu_squared(x: Expression) -> Expression:
    return apply("pow", _relu(x), constant(2.0))


_ACTIVATIONS: dict[ActivationName, tuple[str, Bend]] = {
    "gelu": ("0.5 x (1 + erf(x / √2))", _gelu),
    "gelu_tanh": ("0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³)))", _gelu_tanh),
    "silu": ("x / (1 + exp(-x))", _silu),
    "relu": ("max(x, 0)", _relu),
    "relu_squared": ("max(x, 0)²", _relu_squared),
}


def activation_receipt(trace: Trace, selection: Selection, unit: int) -> Receipt | None:
    """A unit's activation, times its gate if it has one; None without a known activation."""
    block = trace.stack_pass(selection.side).stack.blocks[selection.layer]
    module = block.get_submodule("feed_forward")
    facts = feed_forward_facts(module)
    match facts:
        case FeedForwardFacts(activation=activation, gate=gate):
            pass
        case UnknownFacts():
            return None
        case _:
            assert_never(facts)
    if activation is None:
        return None
    text, bend = _ACTIVATIONS[activation]
    gated = gate is not None
    at_layer = f"{selection.layer_name}.feed_forward"
    bent = number(trace, at(f"{at_layer}.{'gate' if gated else 'up'}", selection.token, unit), "x")
    expression = bend(bent)
    if gated:
        up = number(trace, at(f"{at_layer}.up", selection.token, unit), "up")
        expression, text = apply("mul", expression, up), f"{text} × up"
    return receipt(
        trace,
        title=f"unit {unit}, as it speaks",
        formula=text,
        expression=expression,
        address=at(f"{at_layer}.units", selection.token, unit),
        source=source_line(type(module), "self.activation("),
    )
