"""Receipts of norms: mean, variance, eps, gain and bias put into the formula.

Comes in: a trace, a norm by its name, a token and a feature. Goes out: a receipt. The mean and the
variance are recomputed from the features, not taken from the model.
"""

from __future__ import annotations

import inspect

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
from pellucid.model import BatchNorm, GroupNorm, InstanceNorm, LayerNorm, RMSNorm


def norm_receipt(
    trace: Trace, *, norm: str, given: str, made: str, token: int, feature: int
) -> Receipt | None:
    """One feature after a norm: `norm` is the module's name; None for one that is not known."""
    module = trace.model.get_submodule(norm)
    written = _written(trace, module, given, token, feature)
    if written is None:
        return None
    formula, made_of = written
    if getattr(module, "gain", None) is not None:
        gain: Expression = number(trace, at(f"{norm}.gain", feature), "gain")
        if isinstance(module, RMSNorm) and module.unit_offset:
            gain, formula = apply("add", constant(1.0), gain), f"{formula} × (1 + gain)"
        else:
            formula += " × gain"
        made_of = apply("mul", made_of, gain)
    if getattr(module, "bias", None) is not None:
        made_of = added(made_of, number(trace, at(f"{norm}.bias", feature), "bias"))
        formula += " + bias"
    return receipt(
        trace,
        title=f"feature {feature} after the norm",
        formula=formula,
        expression=made_of,
        address=at(made, token, feature),
        source=_source(module),
    )


def _written(
    trace: Trace, module: nn.Module, address: str, token: int, feature: int
) -> tuple[str, Expression] | None:
    """The part that brings to a common scale: its formula, and its tree."""
    x = number(trace, at(address, token, feature), "x")
    match module:
        case RMSNorm(eps=eps):
            squares = vector(trace, at(address, token), "x")
            mean = apply("div", product(squares, squares), constant(len(squares.values), "n"))
            return "x / √(Σ x² / n + eps)", _over_root(x, mean, eps)
        case LayerNorm(eps=eps):
            return _centred(x, vector(trace, at(address, token), "x"), eps)
        case GroupNorm(eps=eps, n_groups=n_groups):
            features = trace[address][token]
            group = features.shape[0] // n_groups
            first = feature // group * group
            last = first + group
            return _centred(
                x, row(features[first:last], "x", f"{address}[{token}, {first}:{last}]"), eps
            )
        case InstanceNorm(eps=eps):
            return _centred(
                x,
                row(trace[address][:, feature], f"x[:, {feature}]", f"{address}[:, {feature}]"),
                eps,
            )
        case BatchNorm(eps=eps, running_mean=mean, running_var=var):
            return _by_running(x, mean[feature], var[feature], eps)
        case _:
            return None


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


def _over_root(above: Expression, below: Expression, eps: float) -> Expression:
    return apply("div", above, apply("sqrt", apply("add", below, constant(eps, "eps"))))


def _source(module: nn.Module) -> str:
    """The line of the norm that divides."""
    from pellucid.model import norms

    if isinstance(module, RMSNorm):
        return source_line(norms, "torch.rsqrt(wide.square()")
    lines = inspect.getsource(type(module).forward).splitlines()
    dividing_line = next(line.strip() for line in lines if "norm(" in line or "rsqrt" in line)
    return source_line(type(module), dividing_line)
