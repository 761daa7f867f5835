"""Rotary positions as metadata of a GGUF file, and the factors of their frequencies as tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pellucid import config
from pellucid.exports.gguf.architecture import Architecture
from pellucid.exports.gguf.layers import last_stack, rotary_of
from pellucid.maths.positions.rotary import rotary_frequencies
from pellucid.maths.positions.rotary_scaling import llama3_frequencies, yarn_attention_factor

#: llama.cpp rounds the length of a context up to a multiple of it.
CONTEXT_STEP = 256
#: How much of the logarithm of YaRN's factor is added to 1.
_YARN_WEIGHT = 0.1


def add_rotary(
    writer: Any, library: Any, architecture: Architecture, model: config.Transformer
) -> None:
    """Write the base, the rotated features and the scaling.

    Args:
        writer: of the library `gguf`.
        library: `gguf`.
        architecture: of llama.cpp.
        model: the config.
    """
    _, stack = last_stack(model)
    rotary, local = rotary_of(stack), rotary_of(stack, windowed=True)
    if rotary is None:
        return
    writer.add_rope_dimension_count(rotary.n_features or stack.d_head)
    writer.add_rope_freq_base(rotary.base)
    if architecture.local == "own_base" and local is not None:
        writer.add_rope_freq_base_swa(local.base)
    match rotary.scaling:
        case config.LinearScaling(factor=factor):
            writer.add_rope_scaling_type(library.RopeScalingType.LINEAR)
            writer.add_rope_scaling_factor(factor)
        case config.YaRN() as scaling:
            writer.add_rope_scaling_type(library.RopeScalingType.YARN)
            writer.add_rope_scaling_factor(scaling.factor)
            writer.add_rope_scaling_orig_ctx_len(scaling.original_context_length)
            if architecture.yarn_in_scores:
                writer.add_rope_scaling_yarn_log_mul(_YARN_WEIGHT)
            else:
                # by what llama.cpp multiplies cos and sin, if the file does not say more
                usual = yarn_attention_factor(scaling.factor)
                writer.add_rope_scaling_attn_factors(scaling.attention_factor / usual)
        case config.LongRoPE() as scaling:
            writer.add_rope_scaling_type(library.RopeScalingType.LONGROPE)
            writer.add_rope_scaling_orig_ctx_len(scaling.original_context_length)
            writer.add_rope_scaling_attn_factors(scaling.attention_factor)
        case _:
            pass


def frequency_factors(model: config.Transformer) -> dict[str, Tensor]:
    """By how much each rotary frequency is divided, where a single factor does not say it."""
    stack = model.decoder
    rotary = None if stack is None else rotary_of(stack)
    if stack is None or rotary is None:
        return {}
    match rotary.scaling:
        case config.Llama3Scaling() as scaling:
            n_rotated = rotary.n_features or stack.d_head
            pairs = torch.arange(n_rotated // 2, dtype=torch.float64)
            plain = rotary_frequencies(pairs, n_rotated=n_rotated, base=rotary.base)
            scaled = llama3_frequencies(
                plain,
                factor=scaling.factor,
                original_length=scaling.original_context_length,
                low=scaling.low_frequency_factor,
                high=scaling.high_frequency_factor,
            )
            return {"rope_freqs.weight": (plain / scaled).float()}
        case config.LongRoPE() as scaling:
            return {
                "rope_factors_long.weight": torch.tensor(scaling.long),
                "rope_factors_short.weight": torch.tensor(scaling.short),
            }
        case _:
            return {}
