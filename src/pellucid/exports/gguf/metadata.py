"""The sizes and constants of a model as metadata of a GGUF file."""

from __future__ import annotations

from typing import Any

from pellucid import config
from pellucid.exports.gguf.architectures import Architecture, dense, windows_of


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
    attention, feed_forward, _ = stack.layers[0]  # every layer has the same sizes
    assert isinstance(attention, config.MultiHead)
    assert isinstance(feed_forward, config.MLP | config.GatedMLP)  # others were refused
    writer.add_context_length(context_length(architecture, model))
    writer.add_embedding_length(model.d_model)
    writer.add_block_count(stack.n_layers)
    writer.add_feed_forward_length(dense(feed_forward).d_ff)
    writer.add_head_count(attention.n_heads)
    writer.add_head_count_kv(attention.n_kv_heads)
    writer.add_key_length(attention.d_head)
    writer.add_value_length(attention.value_width)
    writer.add_vocab_size(model.rows)
    if isinstance(stack.norm, config.LayerNorm):
        writer.add_layer_norm_eps(stack.norm.eps)
    elif isinstance(stack.norm, config.RMSNorm):
        writer.add_layer_norm_rms_eps(stack.norm.eps)
    _add_rotary(writer, library, stack)
    _add_of_kind(writer, library, architecture, model, stack)
    if attention.scale is not None and architecture.scale:
        writer.add_attention_scale(attention.scale)
    if attention.soft_cap is not None:
        writer.add_attn_logit_softcapping(attention.soft_cap)
    if isinstance(model.head, config.LanguageHead) and model.head.soft_cap is not None:
        writer.add_final_logit_softcapping(model.head.soft_cap)


def context_length(architecture: Architecture, model: config.Transformer) -> int:
    """The context of the file: at most the window, where llama.cpp has no windows.

    Within a window nothing is different.
    """
    windows = [w for stack in model.stacks for w in windows_of(stack) if w is not None]
    if not windows or architecture.windows:
        return model.context_length
    return min(model.context_length, *windows)


def _add_rotary(writer: Any, library: Any, stack: config.Stack) -> None:
    rotary = stack.positions
    if not isinstance(rotary, config.Rotary):
        return
    writer.add_rope_dimension_count(rotary.n_features or stack.d_head)
    writer.add_rope_freq_base(rotary.base)
    if isinstance(rotary.scaling, config.LinearScaling):
        writer.add_rope_scaling_type(library.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rotary.scaling.factor)


def _add_of_kind(
    writer: Any,
    library: Any,
    architecture: Architecture,
    model: config.Transformer,
    stack: config.Stack,
) -> None:
    match architecture.name:
        case "gptneox":
            writer.add_parallel_residual(isinstance(stack.residual, config.Parallel))
        case "gemma2":
            window = next((w for w in windows_of(stack) if w is not None), model.context_length)
            writer.add_sliding_window(window)
        case "bert":
            writer.add_causal_attention(False)
            writer.add_pooling_type(library.PoolingType.MEAN)
            writer.add_token_type_count(model.embedding.segments or 1)
        case "t5":
            assert model.decoder is not None
            assert isinstance(stack.positions, config.BucketedBias)
            writer.add_decoder_block_count(model.decoder.n_layers)
            writer.add_relative_attn_buckets_count(stack.positions.n_buckets)
        case _:
            pass
