"""A norm in words: the numbers that it takes its scale from, and the tokens that it sees."""

from __future__ import annotations

from typing import assert_never

from torch import nn

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
            return "it is two norms, one before and one after its layer"
        case IdentityFacts():
            return "it returns its input"
        case UnknownFacts():
            return None
        case _:
            assert_never(facts)


def _describe_statistics(facts: NormFacts) -> str:
    match facts.mean_over:
        case "sequence":
            return "it takes its means and variances of each feature over all tokens of the text"
        case "batch":
            return (
                "it takes its means and variances of each feature from the batches that it was "
                "trained on"
            )
        case "features":
            pass
        case _:
            assert_never(facts.mean_over)
    if facts.n_groups > 1:
        measured = "means and variances" if facts.centred else "root mean squares"
        groups = f"each of {facts.n_groups} groups of one token's features"
        return f"it takes its {measured} over {groups}"
    if facts.centred:
        return "it takes its mean and variance over one token's features"
    return "its scale is the root mean square of one token's features"


def describe_leak(facts: NormPart, *, causal: bool) -> str | None:
    """What a norm sees besides its own token; None if that is nothing, or unknown."""
    future = ", those after it as well: so it leaks the future" if causal else ""
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
            return f"a token's features depend on all tokens of the text here{future}"
        case "batch":
            return (
                "in training a token's features depended on all tokens of the batch, other texts' "
                f"too{future}; here the norm uses the averages that it kept, and sees one token"
            )
        case _:
            assert_never(facts.mean_over)
