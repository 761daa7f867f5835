"""The sizes and constants of a model as metadata of a GGUF file."""

from __future__ import annotations

from typing import Any

from pellucid import config
from pellucid.exports.gguf.architecture import Architecture
from pellucid.exports.gguf.layers import (
    dense_of,
    mixture_of,
    n_leading_dense,
    rotary_of,
    windows_of,
)
from pellucid.exports.gguf.rotary import CONTEXT_STEP, add_rotary


def add_sizes(
    writer: Any, library: Any, architecture: Architecture, model: config.Transformer
) -> None:
    """Write the metadata of the architecture.

    Args:
        writer: of the library `gguf`.
        library: `gguf`.
        architecture: of llama.cpp.
        model: the config.
    """
    stack = model.encoder or model.decoder
    assert stack is not None
    writer.add_context_length(context_length(architecture, model))
    writer.add_embedding_length(model.d_model)
    writer.add_block_count(stack.n_layers)
    writer.add_vocab_size(model.rows)
    _add_attention(writer, stack)
    _add_feed_forward(writer, stack)
    _add_mixture(writer, library, architecture, stack)
    _add_windows(writer, architecture, model, stack)
    if isinstance(stack.norm, config.LayerNorm):
        writer.add_layer_norm_eps(stack.norm.eps)
    elif isinstance(stack.norm, config.RMSNorm):
        writer.add_layer_norm_rms_eps(stack.norm.eps)
    add_rotary(writer, library, architecture, model)
    _add_factors(writer, architecture, model, stack)
    architecture.own_metadata(writer, library, model)


def context_length(architecture: Architecture, model: config.Transformer) -> int:
    """The context of the file: at most as long as nothing is different.

    That is the window, where llama.cpp has no windows, and the text up to which LongRoPE takes its
    short factors: llama.cpp chooses by the context, in steps of 256, and not by the text.
    """
    limits = [model.context_length]
    for stack in model.stacks:
        if not architecture.windows:
            limits += [window for window in windows_of(stack) if window is not None]
        rotary = rotary_of(stack)
        if rotary is not None and isinstance(rotary.scaling, config.LongRoPE):
            limits.append(rotary.scaling.original_context_length // CONTEXT_STEP * CONTEXT_STEP)
    return min(limits)


def _add_attention(writer: Any, stack: config.Stack) -> None:
    attention = stack.layers[0].attention  # every layer has the same sizes
    writer.add_head_count(attention.n_heads)
    if isinstance(attention, config.LatentAttention):
        # the cache has one head, of the latent and the rotated key
        writer.add_head_count_kv(1)
        writer.add_key_length(attention.d_latent + attention.d_rotated)
        writer.add_value_length(attention.d_latent)
        writer.add_key_length_mla(attention.d_head + attention.d_rotated)
        writer.add_value_length_mla(attention.d_value)
        writer.add_kv_lora_rank(attention.d_latent)
        writer.add_q_lora_rank(attention.d_query_latent or 0)
        return
    assert isinstance(attention, config.MultiHead)  # a family holds it
    writer.add_head_count_kv(attention.n_kv_heads)
    writer.add_key_length(attention.d_head)
    writer.add_value_length(attention.value_width)
    if attention.soft_cap is not None:
        writer.add_attn_logit_softcapping(attention.soft_cap)
    if attention.clip is not None:
        writer.add_clamp_kqv(attention.clip)


def _add_feed_forward(writer: Any, stack: config.Stack) -> None:
    dense, mixture = dense_of(stack), mixture_of(stack)
    width = mixture.expert.d_ff if dense is None and mixture is not None else None
    writer.add_feed_forward_length(dense.d_ff if dense is not None else width)


def _add_mixture(
    writer: Any, library: Any, architecture: Architecture, stack: config.Stack
) -> None:
    kind, mixture = mixture_of(stack), architecture.mixture
    if kind is None or mixture is None:
        return
    writer.add_expert_count(kind.n_experts)
    writer.add_expert_used_count(kind.n_active)
    if mixture.own_width:
        writer.add_expert_feed_forward_length(kind.expert.d_ff)
    if kind.shared is not None and mixture.shared_by_count:
        writer.add_expert_shared_count(kind.shared.d_ff // kind.expert.d_ff)
    elif kind.shared is not None:
        writer.add_expert_shared_feed_forward_length(kind.shared.d_ff)
    if mixture.dense_first:
        writer.add_leading_dense_block_count(n_leading_dense(stack))
    if mixture.normalised is None:
        writer.add_expert_weights_norm(kind.router.normalised)
        scores = library.ExpertGatingFuncType
        writer.add_expert_gating_func(getattr(scores, kind.router.scores.upper()))
    if mixture.scaled:
        writer.add_expert_weights_scale(kind.router.scale)
    groups = kind.router.groups
    if groups is not None and groups.n_active < groups.n_groups:
        writer.add_expert_group_count(groups.n_groups)
        writer.add_expert_group_used_count(groups.n_active)


def _add_windows(
    writer: Any, architecture: Architecture, model: config.Transformer, stack: config.Stack
) -> None:
    """The size of the windows, and which layers have one."""
    windows = windows_of(stack)
    if not architecture.windows:
        return
    window = next((window for window in windows if window is not None), None)
    if window is None and architecture.window_if_any:
        return  # without the key no layer has a window
    if window is not None and model.decoder is None:
        window = 2 * (window - 1)  # to both sides
    writer.add_sliding_window(model.context_length if window is None else window)
    writer.add_sliding_window_pattern([window is not None for window in windows])


def _add_factors(
    writer: Any, architecture: Architecture, model: config.Transformer, stack: config.Stack
) -> None:
    """The numbers that multiply states, and the soft cap of logits."""
    if architecture.scales:
        writer.add_embedding_scale(model.embedding_scale)
        assert isinstance(stack.residual, config.PreNorm)
        writer.add_residual_scale(stack.residual.multiplier or 1.0)
    if not isinstance(model.head, config.LanguageHead):
        return
    multiplier = model.head.multiplier or 1.0
    match architecture.logit_scale:
        case "no":
            pass
        case "factor":
            writer.add_logit_scale(multiplier)
        case "divisor":
            writer.add_logit_scale(1 / multiplier)
    if model.head.soft_cap is not None:
        writer.add_final_logit_softcapping(model.head.soft_cap)
