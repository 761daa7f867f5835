"""From a config to what comes before the first block, and to the schemes of positions."""

from __future__ import annotations

from functools import partial
from typing import assert_never

import torch
from torch import Tensor, nn

from pellucid import config
from pellucid.maths.positions.rotary import rotary_frequencies
from pellucid.maths.positions.rotary_scaling import (
    dynamic_ntk_frequencies,
    interpolated_frequencies,
    llama3_frequencies,
    ntk_frequencies,
    yarn_frequencies,
)
from pellucid.model.blocks import Entry
from pellucid.model.build.parts import norm
from pellucid.model.disentangled import Disentangled
from pellucid.model.positions import (
    AlternatingPositions,
    Learned,
    NoPositions,
    Positions,
    Sinusoidal,
)
from pellucid.model.relative_positions import ALiBi, BucketedBias, ShawRelative
from pellucid.model.rotary import LengthRotary, Rotary


def entry(model: config.Transformer, stack: config.Stack) -> Entry:
    """The parts of a stack before its first block."""
    input_norm, scheme = stack.input_norm, stack.embedding_positions
    projection = model.embedding.projection
    return Entry(
        norm=None if input_norm is None else norm(input_norm, model.input_norm_width),
        positions=None if scheme is None else added_positions(model, scheme),
        projection=None
        if projection is None
        else nn.Linear(projection.width, model.d_model, bias=projection.bias),
        place="last" if projection is None else projection.place,
    )


def positions(model: config.Transformer, stack: config.Stack, *, causal: bool) -> Positions:
    """The positions of a stack: one scheme, or several that take turns."""
    modules, places = list[Positions](), list[int]()
    place_of: dict[config.OnePositions, int] = {}
    for layer in stack.layers:
        scheme = layer.positions
        own = isinstance(scheme, config.BucketedBias) and scheme.per_layer
        if own or scheme not in place_of:
            place_of[scheme] = len(modules)
            modules.append(_scheme(model, stack, scheme, layer.attention, causal=causal))
        places.append(place_of[scheme])
    return modules[0] if len(modules) == 1 else AlternatingPositions(modules, places)


def _scheme(
    model: config.Transformer,
    stack: config.Stack,
    scheme: config.OnePositions,
    attention: config.OneAttention,
    *,
    causal: bool,
) -> Positions:
    """One scheme of positions.

    Args:
        model: the model. stack: the stack. scheme: the scheme. attention: of a layer that has it.
        causal: whether the stack is a decoder.
    """
    length = model.context_length
    match scheme:
        case config.NoPositions():
            return NoPositions()
        case config.Learned() | config.Sinusoidal():
            return added_positions(model, scheme)
        case config.ShawRelative(max_distance=furthest, values=values):
            d_head, d_value = attention.d_head, config.value_width(attention) if values else None
            return ShawRelative(max_distance=furthest, d_head=d_head, d_value=d_value)
        case config.BucketedBias(n_buckets=n_buckets, max_distance=furthest):
            return BucketedBias(
                context_length=length,
                n_heads=attention.n_heads,
                n_buckets=n_buckets,
                max_distance=furthest,
                causal=causal,
            )
        case config.Disentangled():
            return _disentangled(model, scheme, stack.dropout)
        case config.Rotary():
            return _rotary(scheme, length, config.rotated_width(attention))
        case config.ALiBi():
            return ALiBi(
                n_heads=attention.n_heads,
                max_exponent=scheme.max_exponent,
                scaled=scheme.scaled,
                rounded=scheme.rounded,
            )
        case _:
            assert_never(scheme)


def added_positions(
    model: config.Transformer, scheme: config.Learned | config.Sinusoidal
) -> Positions:
    """A scheme that is added to the embedding."""
    length, width = model.context_length, model.positions_width
    match scheme:
        case config.Learned(offset=offset):
            return Learned(context_length=length, d_model=width, offset=offset)
        case config.Sinusoidal():
            return Sinusoidal(
                context_length=length,
                d_model=width,
                base=scheme.base,
                pairing=scheme.pairing,
                offset=scheme.offset,
                down_to_base=scheme.down_to_base,
            )
        case _:
            assert_never(scheme)


def _disentangled(
    model: config.Transformer, scheme: config.Disentangled, dropout: float
) -> Disentangled:
    return Disentangled(
        context_length=model.context_length,
        d_model=model.d_model,
        n_buckets=scheme.n_buckets,
        max_distance=scheme.max_distance,
        content_to_position=scheme.content_to_position,
        position_to_content=scheme.position_to_content,
        own_projections=scheme.own_projections,
        norm=None if scheme.norm is None else norm(scheme.norm, model.d_model),
        dropout=dropout,
    )


def _rotary(rotary: config.Rotary, context_length: int, d_head: int) -> Rotary:
    n_rotated = rotary.n_features or d_head
    with torch.device("cpu"):
        pairs = torch.arange(n_rotated // 2, dtype=torch.float64)
    frequencies = rotary_frequencies(pairs, n_rotated=n_rotated, base=rotary.base)
    scaling = rotary.scaling
    if isinstance(scaling, config.DynamicNTK | config.LongRoPE):
        return _length_rotary(rotary, scaling, context_length, frequencies)
    return Rotary(
        context_length=context_length,
        frequencies=_stretched(frequencies, scaling, rotary.base),
        pairing=rotary.pairing,
        attention_factor=scaling.attention_factor if isinstance(scaling, config.YaRN) else 1.0,
    )


def _length_rotary(
    rotary: config.Rotary,
    scaling: config.DynamicNTK | config.LongRoPE,
    context_length: int,
    frequencies: Tensor,
) -> LengthRotary:
    switch = scaling.original_context_length
    match scaling:
        case config.DynamicNTK(factor=factor):
            short, longest, attention_factor = frequencies, context_length, 1.0
            longer = partial(_dynamic, frequencies, factor, switch)
        case config.LongRoPE(attention_factor=attention_factor):
            short, long = (
                interpolated_frequencies(frequencies, factor=frequencies.new_tensor(factors))
                for factors in (scaling.short, scaling.long)
            )
            longest, longer = switch + 1, partial(_constant, long)
        case _:
            assert_never(scaling)
    return LengthRotary(
        context_length=context_length,
        frequencies=short,
        longer=longer,
        switch=switch,
        longest=longest,
        pairing=rotary.pairing,
        attention_factor=attention_factor,
    )


def _dynamic(frequencies: Tensor, factor: float, original_length: int, length: int) -> Tensor:
    return dynamic_ntk_frequencies(
        frequencies, factor=factor, length=length, original_length=original_length
    )


def _constant(frequencies: Tensor, length: int) -> Tensor:
    return frequencies


def _stretched(
    frequencies: Tensor,
    scaling: config.LinearScaling | config.NTKScaling | config.YaRN | config.Llama3Scaling | None,
    base: float,
) -> Tensor:
    match scaling:
        case None:
            return frequencies
        case config.LinearScaling(factor=factor):
            return interpolated_frequencies(frequencies, factor=factor)
        case config.NTKScaling(factor=factor):
            return ntk_frequencies(frequencies, factor=factor)
        case config.YaRN():
            return yarn_frequencies(
                frequencies,
                factor=scaling.factor,
                original_length=scaling.original_context_length,
                base=base,
                beta_fast=scaling.beta_fast,
                beta_slow=scaling.beta_slow,
                truncate=scaling.truncated,
            )
        case config.Llama3Scaling():
            return llama3_frequencies(
                frequencies,
                factor=scaling.factor,
                original_length=scaling.original_context_length,
                low=scaling.low_frequency_factor,
                high=scaling.high_frequency_factor,
            )
        case _:
            assert_never(scaling)
