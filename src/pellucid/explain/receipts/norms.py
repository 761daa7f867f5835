"""Receipts of norms: mean, variance, eps, gain and bias put into the formula.

The mean and the variance are recomputed from the features, not taken from the model.
"""

from __future__ import annotations

import inspect
from typing import assert_never

from torch import Tensor, nn

from pellucid.explain.chapter_types import Receipt
from pellucid.explain.expressions import Expression, Vector
from pellucid.explain.receipts.builder import (
    added,
    apply,
    at,
    constant,
    number,
    product,
    receipt,
    row,
    source_line,
    summed,
    vector,
)
from pellucid.explain.trace_types import Trace
from pellucid.model.facts import (
    IdentityFacts,
    NormFacts,
    SandwichFacts,
    UnknownFacts,
    norm_facts,
)


def norm_receipt(
    trace: Trace, *, norm: str, input_address: str, output_address: str, token: int, feature: int
) -> Receipt | None:
    """One feature after a norm: `norm` is the module's name; None for one that is not known."""
    module = trace.model.get_submodule(norm)
    stated = norm_facts(module)
    match stated:
        case NormFacts() as facts:
            pass
        case SandwichFacts() | IdentityFacts() | UnknownFacts():
            return None
        case _:
            assert_never(stated)
    formula, expression = _standardise(trace, norm, facts, input_address, token, feature)
    if facts.gain is not None:
        gain: Expression = number(trace, at(f"{norm}.{facts.gain}", feature), "gain")
        if facts.gain_offset:
            gain = apply("add", constant(facts.gain_offset), gain)
            formula = f"{formula} × ({facts.gain_offset:g} + gain)"
        else:
            formula += " × gain"
        expression = apply("mul", expression, gain)
    if facts.bias is not None:
        expression = added(expression, number(trace, at(f"{norm}.{facts.bias}", feature), "bias"))
        formula += " + bias"
    return receipt(
        trace,
        title=f"feature {feature} after the norm",
        formula=formula,
        expression=expression,
        address=at(output_address, token, feature),
        source=_source(module, facts),
    )


def _standardise(
    trace: Trace, norm: str, facts: NormFacts, address: str, token: int, feature: int
) -> tuple[str, Expression]:
    """The part that brings to a common scale: its formula, and its tree."""
    x = number(trace, at(address, token, feature), "x")
    match facts.mean_over:
        case "batch":
            names = (facts.running_mean, facts.running_variance)
            mean, variance = (trace[f"{norm}.{name}"][feature] for name in names)
            return _by_running(x, mean, variance, facts.eps)
        case "sequence":
            column = trace[address][:, feature]
            features = row(column, f"x[:, {feature}]", f"{address}[:, {feature}]")
        case "features" if facts.n_groups > 1:
            size = trace[address].shape[1] // facts.n_groups
            first = feature // size * size
            group = trace[address][token][first : first + size]
            features = row(group, "x", f"{address}[{token}, {first}:{first + size}]")
        case "features":
            features = vector(trace, at(address, token), "x")
        case _:
            assert_never(facts.mean_over)
    if facts.centred:
        return _centred(x, features, facts.eps)
    mean_square = apply("div", product(features, features), constant(len(features.values), "n"))
    return "x / √(Σ x² / n + eps)", _over_root(x, mean_square, facts.eps)


def _centred(x: Expression, features: Vector, eps: float) -> tuple[str, Expression]:
    n = constant(len(features.values), "n")
    mean = apply("div", summed(features), n)
    squares = apply("div", product(features, features), n)
    var = apply("sub", squares, apply("mul", mean, mean))
    centred = apply("sub", x, mean)
    return "(x - mean) / √(var + eps)", _over_root(centred, var, eps)


def _by_running(x: Expression, mean: Tensor, var: Tensor, eps: float) -> tuple[str, Expression]:
    centred = apply("sub", x, constant(float(mean), "running mean"))
    scaled = _over_root(centred, constant(float(var), "running var"), eps)
    return "(x - running mean) / √(running var + eps)", scaled


def _over_root(numerator: Expression, variance: Expression, eps: float) -> Expression:
    return apply("div", numerator, apply("sqrt", apply("add", variance, constant(eps, "eps"))))


def _source(module: nn.Module, facts: NormFacts) -> str:
    """The line of the norm that divides."""
    from pellucid.model import norms

    if not facts.centred:
        return source_line(norms, "torch.rsqrt(wide.square()")
    lines = inspect.getsource(type(module).forward).splitlines()
    dividing_line = next(line.strip() for line in lines if "norm(" in line or "rsqrt" in line)
    return source_line(type(module), dividing_line)
