"""A norm in words: the numbers that it takes its scale from, and the tokens that it sees."""

from __future__ import annotations

from typing import assert_never

from torch import nn

from pellucid.catalogue import message
from pellucid.model.facts import (
    IdentityFacts,
    NormFacts,
    NormPart,
    SandwichFacts,
    UnknownFacts,
    norm_facts,
)


def scale_of(norm: nn.Module) -> str | None:
    """`describe_scale` of a part in the place of a norm."""
    return describe_scale(norm_facts(norm))


def leak_of(norm: nn.Module, *, causal: bool) -> str | None:
    """`describe_leak` of a part in the place of a norm."""
    return describe_leak(norm_facts(norm), causal=causal)


def describe_scale(facts: NormPart) -> str | None:
    """Over which numbers a norm takes the scale that it divides by; None if that is unknown."""
    match facts:
        case NormFacts():
            return _describe_statistics(facts)
        case SandwichFacts():
            return message("norms.it-is-two-norms-one")
        case IdentityFacts():
            return message("norms.it-returns-its-input")
        case UnknownFacts():
            return None
        case _:
            assert_never(facts)


def _describe_statistics(facts: NormFacts) -> str:
    match facts.mean_over:
        case "sequence":
            return message("norms.it-takes-its-means-and-2")
        case "batch":
            return message("norms.it-takes-its-means-and")
        case "features":
            pass
        case _:
            assert_never(facts.mean_over)
    if facts.n_groups > 1:
        measured = (
            message("norms.means-and-variances")
            if facts.centred
            else message("norms.root-mean-squares")
        )
        groups = message("norms.each-of-groups-of-one", n_groups=facts.n_groups)
        return message("norms.it-takes-its-over", measured=measured, groups=groups)
    if facts.centred:
        return message("norms.it-takes-its-mean-and")
    return message("norms.its-scale-is-the-root")


def describe_leak(facts: NormPart, *, causal: bool) -> str | None:
    """What a norm sees besides its own token; None if that is nothing, or unknown."""
    future = message("norms.those-after-it-as-well") if causal else ""
    match facts:
        case NormFacts():
            pass
        case SandwichFacts() | IdentityFacts() | UnknownFacts():
            return None
        case _:
            assert_never(facts)
    match facts.mean_over:
        case "features":
            return None
        case "sequence":
            return message("norms.a-token-features-depend-on", future=future)
        case "batch":
            return message("norms.in-training-a-token-features", future=future)
        case _:
            assert_never(facts.mean_over)
