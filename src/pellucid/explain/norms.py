"""What a norm does, in words: over which numbers it takes its scale, and what else it sees.

Comes in: a norm. Goes out: text, which holds for that kind of norm alone. It measures nothing.
"""

from __future__ import annotations

from torch import nn

from pellucid.model import BatchNorm, GroupNorm, InstanceNorm, LayerNorm, RMSNorm


def scale_of(norm: nn.Module) -> str:
    """Over which numbers a norm takes the scale that it divides by."""
    match norm:
        case LayerNorm():
            return "its mean and variance are those of one token's features"
        case RMSNorm():
            return "its scale is the root mean square of one token's features"
        case GroupNorm(n_groups=n_groups):
            return (
                f"its means and variances are those of each of {n_groups} groups of one token's "
                "features"
            )
        case InstanceNorm():
            return "its means and variances are those of each feature over all tokens of the text"
        case BatchNorm():
            return (
                "its means and variances are those of each feature over the batches that it was "
                "trained on"
            )
        case _:
            return "a norm of its own kind"


def leaks(norm: nn.Module, *, causal: bool) -> str | None:
    """What else than its own token a norm sees; None where that is nothing."""
    later = ", those after it as well: so it leaks the future" if causal else ""
    match norm:
        case InstanceNorm():
            return f"a token's features depend on all tokens of the text here{later}"
        case BatchNorm():
            return (
                "in training a token's features depended on all tokens of the batch, other texts' "
                f"too{later}; here the norm uses the averages that it kept, and sees one token"
            )
        case _:
            return None
