"""Parts that the drawings of several kinds of attention share."""

from __future__ import annotations

from typing import assert_never

from pellucid.config import (
    ALiBi,
    BucketedBias,
    Disentangled,
    DynamicNTK,
    Learned,
    LinearScaling,
    Llama3Scaling,
    LongRoPE,
    NoPositions,
    NTKScaling,
    OnePositions,
    Rotary,
    RotaryScaling,
    ShawRelative,
    Sinusoidal,
    YaRN,
)
from pellucid.drawing.elements import Arrow, Box, Column


def projection(name: str, d_model: int, heads: int, width: int) -> Box:
    """A projection to heads of a width."""
    return Box(name=name, lines=(f"{d_model} -> {heads} x {width}",))


def output(heads: int, d_value: int, d_model: int) -> Box:
    """The projection of the joined heads back to the stream."""
    return Box(name="output", lines=(f"heads joined, {heads * d_value} -> {d_model}",))


def rotation(positions: OnePositions) -> Column:
    """The rotation of queries or keys; nothing if positions do not rotate."""
    if not isinstance(positions, Rotary):
        return ()
    lines = [f"base {positions.base:g}"]
    if positions.n_features is not None:
        lines.append(f"{positions.n_features} features")
    if positions.scaling is not None:
        lines.append(_scaling(positions.scaling))
    return (Arrow(), Box(name="Rotary", lines=tuple(lines)))


def _scaling(scaling: RotaryScaling) -> str:
    name = type(scaling).__name__
    match scaling:
        case LinearScaling() | NTKScaling() | YaRN() | Llama3Scaling():
            return f"{name} x {scaling.factor:g}"
        case DynamicNTK(factor=factor, original_context_length=length):
            return f"{name} x {factor:g} above {length} tokens"
        case LongRoPE(original_context_length=length):
            return f"{name}: other angles above {length} tokens"
        case _:
            assert_never(scaling)


def bias(positions: OnePositions) -> tuple[str, ...]:
    """What positions add to the scores, in a line."""
    match positions:
        case BucketedBias():
            return ("+ BucketedBias",)
        case ShawRelative():
            return ("+ q a^T, a of ShawRelative",)
        case Disentangled():
            own = "matrices of their own" if positions.own_projections else "the same matrices"
            terms = ("q P_k^T",) * positions.content_to_position
            terms += ("k P_q^T",) * positions.position_to_content
            return (f"+ {' + '.join(terms)}, scaled too", f"P of distances, by {own}")
        case ALiBi(scaled=scaled):
            penalty = "-slope of the head x distance"
            return (f"+ ALiBi: {f'({penalty}) x the same factor' if scaled else penalty}",)
        case NoPositions() | Learned() | Sinusoidal() | Rotary():
            return ()
        case _:
            assert_never(positions)


def mask(causal: bool, window: int | None) -> str:
    """Which keys a query sees, in words."""
    if window is not None:
        return f"mask: {'causal' if causal else 'both ways'}, a window of {window}"
    return "mask: causal" if causal else "mask: all tokens see all"
