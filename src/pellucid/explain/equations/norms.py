"""Norms: mean, variance, eps, gain and bias put into the formula, all from the input's features."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import assert_never

import torch
from torch import Tensor, nn

from pellucid.catalogue import message
from pellucid.explain.equations.equation import Equation, Source, dot
from pellucid.explain.formulas.nodes import Formula, Index, Places, Read, Total, reads_of, setting
from pellucid.explain.trace_types import Trace
from pellucid.model import norms
from pellucid.model.facts import IdentityFacts, NormFacts, SandwichFacts, UnknownFacts, norm_facts

#: The number of a token and a feature, each over an axis or at a place.
Features = Callable[[str, Index], Formula]


def normalise(
    trace: Trace,
    norm: str,
    x: Features,
    *,
    numbers: Tensor,
    width: int,
    axis: str = "f",
    time: str = "t",
) -> tuple[Formula, str] | None:
    """The formula of a norm and its text; None if pellucid does not know the norm.

    Args:
        trace: the sentence.
        norm: the name of the module in the model.
        x: makes the input.
        numbers: the features that the places of the axis are, of all `width`.
        width: how many features share the norm.
        axis: the name of the axis of features.
        time: the name of the axis of tokens.
    """
    stated = norm_facts(trace.model.get_submodule(norm))
    feature: Index = axis if len(numbers) == width else Places(numbers, (axis,))
    match stated:
        case NormFacts() as facts:
            pass
        case IdentityFacts():
            return x(time, feature), "x"
        case SandwichFacts() | UnknownFacts():
            return None
        case _:
            assert_never(stated)
    n_tokens = trace_length(trace, x, feature)
    text, result = _standardise(norm, facts, x, numbers, width, feature, axis, time, n_tokens)
    if facts.gain is not None:
        gain: Formula = Read(f"{norm}.{facts.gain}", (feature,), "gain")
        text = f"{text} × gain"
        if facts.gain_offset:
            gain, text = (
                facts.gain_offset + gain,
                text.replace("gain", f"({facts.gain_offset:g} + gain)"),
            )
        result = result * gain
    if facts.bias is not None:
        result, text = result + Read(f"{norm}.{facts.bias}", (feature,), "bias"), f"{text} + bias"
    return result, text


def trace_length(trace: Trace, x: Features, feature: Index) -> int:
    """How many tokens the input has."""
    leaf = next(reads_of(x("t", feature)))
    return int(trace[leaf.address].shape[0])


def _standardise(
    norm: str,
    facts: NormFacts,
    x: Features,
    numbers: Tensor,
    width: int,
    feature: Index,
    axis: str,
    time: str,
    n_tokens: int,
) -> tuple[str, Formula]:
    """The text and the formula on the common scale, before gain and bias."""
    number, eps = x(time, feature), setting(facts.eps, "eps")
    match facts.mean_over:
        case "batch":
            mean = Read(f"{norm}.{facts.running_mean}", (feature,), "running_mean")
            var = Read(f"{norm}.{facts.running_variance}", (feature,), "running_var")
            text = "(x - running_mean) / √(running_var + eps)"
            return text, (number - mean) / (var + eps).apply("sqrt")
        case "sequence":
            summed, size = "s", n_tokens
            values = x("s", feature)
        case "features":
            summed, size = "j", width // facts.n_groups
            group: Index = "j"
            if facts.n_groups > 1:
                first = numbers // size * size
                group = Places(first[:, None] + torch.arange(size), (axis, "j"))
            values = x(time, group)
        case _:
            assert_never(facts.mean_over)
    n = setting(size, "n")
    mean_square = dot(summed, size, values, values) / n
    if facts.centred:
        mean = Total(summed, size, values) / n
        var = mean_square - mean * mean
        return "(x - mean) / √(var + eps)", (number - mean) / (var + eps).apply("sqrt")
    return "x / √(Σ x² / n + eps)", number / (mean_square + eps).apply("sqrt")


def norm_of(trace: Trace, norm: str, reads: str, width: int) -> Equation | str:
    """The equation of a norm whose input is at an address, (time, width)."""
    result = normalise(
        trace,
        norm,
        lambda time, feature: Read(reads, (time, feature), "x"),
        numbers=torch.arange(width),
        width=width,
    )
    if result is None:
        return "pellucid has no formula for this norm"
    module = trace.model.get_submodule(norm)
    return Equation(
        formula=result[0],
        axes=("t", "f"),
        title=lambda env: message("equations.feature-after-the-norm", f=env["f"]),
        text=result[1],
        source=source_of(module),
    )


def source_of(module: nn.Module) -> Source:
    """The line of the norm that divides."""
    facts = norm_facts(module)
    if not isinstance(facts, NormFacts):
        return nn.Identity, "return input"
    if not facts.centred:
        return norms, "torch.rsqrt(wide.square()"
    lines = inspect.getsource(type(module).forward).splitlines()
    return type(module), next(line.strip() for line in lines if "norm(" in line or "rsqrt" in line)
