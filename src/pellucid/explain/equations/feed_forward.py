"""Feed-forward layers: rows of their matrices, units, and the mixture of experts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import assert_never

import torch

from pellucid.catalogue import message
from pellucid.explain.addresses.site import Site, block_at
from pellucid.explain.equations.equation import (
    Equation,
    Source,
    block_path,
    layer_name,
    sigmoid,
)
from pellucid.explain.equations.experts import mixture
from pellucid.explain.equations.linear import linear
from pellucid.explain.experts import dense_facts, expert_number, experts_facts
from pellucid.explain.formulas.nodes import (
    Formula,
    Masked,
    Read,
    setting,
)
from pellucid.explain.trace_types import Trace
from pellucid.model import Experts
from pellucid.model.facts import (
    ActivationName,
    ClampedFeedForwardFacts,
    FeedForwardFacts,
)


def _gelu(x: Formula) -> Formula:
    return 0.5 * x * (1.0 + (x / setting(math.sqrt(2), "√2")).apply("erf"))


def _gelu_tanh(x: Formula) -> Formula:
    inner = setting(math.sqrt(2 / math.pi), "√(2/π)") * (x + 0.044715 * x**3.0)
    return 0.5 * x * (1.0 + inner.apply("tanh"))


ACTIVATIONS: dict[ActivationName, tuple[str, Callable[[Formula], Formula]]] = {
    "gelu": ("0.5 x (1 + erf(x / √2))", _gelu),
    "gelu_tanh": ("0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³)))", _gelu_tanh),
    "quick_gelu": ("x / (1 + exp(-1.702 x))", lambda x: x / (1.0 + (-1.702 * x).apply("exp"))),
    "sigmoid": ("1 / (1 + exp(-x))", sigmoid),
    "tanh": ("tanh(x)", lambda x: x.apply("tanh")),
    "silu": ("x / (1 + exp(-x))", lambda x: x / (1.0 + (-x).apply("exp"))),
    "relu": ("max(x, 0)", lambda x: x.clamp_min(0.0)),
    "relu_squared": ("max(x, 0)²", lambda x: x.clamp_min(0.0) ** 2.0),
}


def holder_of(part: str) -> str:
    """The feed-forward that a part belongs to: itself, an expert of it, or its shared layer."""
    return part.removesuffix(".in").removesuffix(".up").removesuffix(".gate").removesuffix(".units")


def _used(site: Site, time: str = "t") -> Read | None:
    """The weight of the expert of a part, which is 0 for a token that does not use it."""
    expert = expert_number(site.part)
    if expert is None:
        return None
    return Read(f"{layer_name(site)}.feed_forward.weights", (time, expert), "w")


def _if_used(site: Site, equation: Equation) -> Equation:
    """The equation, and 0 for tokens that do not use the expert."""
    used = _used(site)
    if used is None:
        return equation
    return Equation(
        formula=Masked(used, equation.formula),
        axes=equation.axes,
        title=equation.title,
        text=f"[chosen] × ({equation.text})",
        source=equation.source,
    )


def part_input(trace: Trace, site: Site) -> Equation:
    """What a matrix, an expert or the shared layer reads."""
    part = site.part.removesuffix(".in")
    holder = holder_of(part)
    address, source = layer_name(site), (Experts, "rows = tokens[order // n_active]")
    if part != holder:  # a matrix reads what its layer reads
        read: Formula = Read(f"{address}.{holder}.in", ("t", "f"), "x")
        return _input(
            site, read, f"{address}.{holder}.in", (type(_module(trace, site, holder)), "self.up(x)")
        )
    read = Read(f"{address}.feed_forward.in", ("t", "f"), "x")
    text = f"{address}.feed_forward.in"
    facts = experts_facts(block_at(trace, site))
    if facts is not None and facts.weights_on == "input" and expert_number(part) is not None:
        expert = expert_number(part)
        assert expert is not None
        weight = Read(f"{address}.feed_forward.weights", ("t", expert), "w")
        return _input(site, weight * read, f"w × {text}", source)
    return _if_used(site, _input(site, read, text, source))


def _input(site: Site, formula: Formula, text: str, source: Source) -> Equation:
    return Equation(
        formula=formula,
        axes=("t", "f"),
        title=lambda env: message(
            "equations.feature-that-reads", f=env["f"], part=site.part.removesuffix(".in")
        ),
        text=text,
        source=source,
    )


def matrix(trace: Trace, site: Site) -> Equation | str:
    """A row of up, gate or down, times its input."""
    holder = holder_of(site.part)
    if dense_facts(block_at(trace, site), holder) is None:
        return "pellucid cannot read the units of this feed-forward"
    name = site.part.removeprefix(holder).removeprefix(".") or "down"
    address = f"{layer_name(site)}.{holder}"
    equation = linear(
        trace,
        site,
        layer=f"{block_path(site)}.{holder}.{name}",
        reads=f"{address}.units" if name == "down" else f"{address}.{name}.in",
        title=lambda env: message(f"equations.{name}", f=env["f"]),
        line="self.down(",
        parts=f"{address}.{name}" if holder == "feed_forward" else "",
    )
    return _if_used(site, equation)


def units(trace: Trace, site: Site) -> Equation | str:
    """The activation of a unit, times its gate if it has one."""
    holder = holder_of(site.part)
    facts, address = dense_facts(block_at(trace, site), holder), f"{layer_name(site)}.{holder}"

    def number(name: str, part: str) -> Formula:
        return Read(f"{address}.{part}", ("t", "f"), name)

    match facts:
        case FeedForwardFacts(activation=activation, gate=gate):
            if activation is None:
                return "pellucid has no formula for this activation"
            text, activate = ACTIVATIONS[activation]
            formula = activate(number("x", "up" if gate is None else "gate"))
            if gate is not None:
                text, formula = f"{text} × up", formula * number("up", "up")
        case ClampedFeedForwardFacts(limit=limit, slope=slope):
            text = "(u + 1) g / (1 + exp(-slope g)); g = min(gate, limit), |u| <= limit"
            g = number("gate", "gate").clamp_max(limit)
            u = number("up", "up").clamp_max(limit).clamp_min(-limit)
            formula = (u + 1.0) * g / (1.0 + (-(setting(slope, "slope") * g)).apply("exp"))
        case None:
            return "pellucid cannot read the units of this feed-forward"
        case _:
            assert_never(facts)
    equation = Equation(
        formula=formula,
        axes=("t", "f"),
        title=lambda env: message("equations.unit-its-output", f=env["f"]),
        text=text,
        source=(type(_module(trace, site, holder)), "self.activation("),
    )
    return _if_used(site, equation)


def sublayer(trace: Trace, site: Site) -> Equation | str:
    """A feature of the output of the feed-forward."""
    facts = experts_facts(block_at(trace, site))
    return matrix(trace, site) if facts is None else mixture(trace, site, facts)


def _module(trace: Trace, site: Site, holder: str) -> torch.nn.Module:
    return block_at(trace, site).get_submodule(holder)
