"""What single architectures have in the metadata of a GGUF file beyond sizes and constants.

Source:
    llama.cpp, src/llama-model.cpp: the keys that each architecture reads.
"""

from __future__ import annotations

from typing import Any

from pellucid import config


def nothing(writer: Any, library: Any, model: config.Transformer) -> None:
    """No key of its own."""


def residual_rule(writer: Any, library: Any, model: config.Transformer) -> None:
    """GPT-NeoX: whether attention and feed-forward read the same stream."""
    writer.add_parallel_residual(isinstance(_stack(model).residual, config.Parallel))


def slopes(writer: Any, library: Any, model: config.Transformer) -> None:
    """MPT: the exponent of ALiBi's last slope."""
    positions = _stack(model).positions
    assert isinstance(positions, config.ALiBi)
    writer.add_max_alibi_bias(positions.max_exponent)


def experts_everywhere(writer: Any, library: Any, model: config.Transformer) -> None:
    """ERNIE 4.5: every layer after the dense ones has experts."""
    writer.add_interleave_moe_layer_step(1)


def encoder_states(writer: Any, library: Any, model: config.Transformer) -> None:
    """Encoders: tokens see both sides, and a text is the mean of its states."""
    writer.add_causal_attention(False)
    writer.add_pooling_type(library.PoolingType.MEAN)
    writer.add_token_type_count(model.embedding.segments or 1)


def buckets(writer: Any, library: Any, model: config.Transformer) -> None:
    """T5: the layers of the decoder, and the buckets of distances."""
    assert model.encoder is not None
    assert model.decoder is not None
    positions = model.encoder.positions
    assert isinstance(positions, config.BucketedBias)
    writer.add_decoder_block_count(model.decoder.n_layers)
    writer.add_relative_attn_buckets_count(positions.n_buckets)


def _stack(model: config.Transformer) -> config.Stack:
    assert model.decoder is not None
    return model.decoder
