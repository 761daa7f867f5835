"""Receipts of norms: mean, variance, eps, gain and bias put into the formula.

They compute the mean and the variance again from the features.
"""

from __future__ import annotations

import inspect
from typing import assert_never

from torch import nn

from pellucid.explain.chapter_types import Receipt
from pellucid.explain.expressions import Expression, Vector, constant
from pellucid.explain.receipts.builder import ReceiptBuilder, Source, cell, row
from pellucid.explain.trace_types import Trace
from pellucid.model import norms
from pellucid.model.facts import IdentityFacts, NormFacts, SandwichFacts, UnknownFacts, norm_facts


def norm_receipt(
    trace: Trace, *, norm: str, input_address: str, output_address: str, token: int, feature: int
) -> Receipt | None:
    """One feature after a norm; None if pellucid does not know the norm.

    Args:
        trace: the sentence.
        norm: the name of the module in the model.
        input_address: of its input, (time, features).
        output_address: of its output.
        token: the token.
        feature: the feature.
    """
    module = trace.model.get_submodule(norm)
    stated = norm_facts(module)
    match stated:
        case NormFacts() as facts:
            pass
        case SandwichFacts() | IdentityFacts() | UnknownFacts():
            return None
        case _:
            assert_never(stated)
    build = ReceiptBuilder(trace)
    formula, expression = _standardise(build, norm, facts, input_address, token, feature)
    if facts.gain is not None:
        gain: Expression = build.number("gain", f"{norm}.{facts.gain}", feature)
        if facts.gain_offset:
            gain = facts.gain_offset + gain
            formula = f"{formula} × ({facts.gain_offset:g} + gain)"
        else:
            formula += " × gain"
        expression *= gain
    if facts.bias is not None:
        expression += build.number("bias", f"{norm}.{facts.bias}", feature)
        formula += " + bias"
    return build.receipt(
        cell(output_address, token, feature),
        title=f"feature {feature} after the norm",
        formula=formula,
        expression=expression,
        source=_source(module, facts),
    )


def _standardise(
    build: ReceiptBuilder, norm: str, facts: NormFacts, address: str, token: int, feature: int
) -> tuple[str, Expression]:
    """The formula and the tree of a feature on the common scale, before gain and bias."""
    x = build.number("x", address, token, feature)
    match facts.mean_over:
        case "batch":
            mean, var = (
                constant(float(build.trace[f"{norm}.{buffer}"][feature]), name)
                for buffer, name in (
                    (facts.running_mean, "running mean"),
                    (facts.running_variance, "running var"),
                )
            )
            formula = "(x - running mean) / √(running var + eps)"
            return formula, _divide_by_root(x - mean, var, facts.eps)
        case "sequence":
            features = build.vector(f"x[:, {feature}]", f"{address}[:, {feature}]")
        case "features" if facts.n_groups > 1:
            size = build.trace[address].shape[1] // facts.n_groups
            first = feature // size * size
            group = build.trace[address][token][first : first + size]
            features = row(group, "x", f"{address}[{token}, {first}:{first + size}]")
        case "features":
            features = build.vector("x", address, token)
        case _:
            assert_never(facts.mean_over)
    if facts.centred:
        mean, var = mean_and_variance(features)
        return "(x - mean) / √(var + eps)", _divide_by_root(x - mean, var, facts.eps)
    mean_square = features @ features / constant(len(features.values), "n")
    return "x / √(Σ x² / n + eps)", _divide_by_root(x, mean_square, facts.eps)


def mean_and_variance(features: Vector) -> tuple[Expression, Expression]:
    """The mean of a row, and the mean of its squares less the square of its mean."""
    n = constant(len(features.values), "n")
    mean = features.sum() / n
    return mean, features @ features / n - mean * mean


def _divide_by_root(numerator: Expression, variance: Expression, eps: float) -> Expression:
    return numerator / (variance + constant(eps, "eps")).sqrt()


def _source(module: nn.Module, facts: NormFacts) -> Source:
    """The line of the norm that divides."""
    if not facts.centred:
        return norms, "torch.rsqrt(wide.square()"
    lines = inspect.getsource(type(module).forward).splitlines()
    return type(module), next(line.strip() for line in lines if "norm(" in line or "rsqrt" in line)
