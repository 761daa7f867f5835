"""OLMo 2: norms after attention and feed-forward, and over all heads' queries and keys at once.

Source: OLMo et al. 2024, "2 OLMo 2 Furious".
"""

from __future__ import annotations

from dataclasses import replace

from pellucid import config
from pellucid.checkpoints.huggingface.attributes import Read, Table
from pellucid.checkpoints.huggingface.families.decoders import (
    LEFT_OUT,
    NAMES,
    RULES,
    describe_decoder,
    gated,
    read_attention,
    read_decoder,
    rms_norm,
)
from pellucid.checkpoints.huggingface.family import Family, Found, lone_decoder, multi_head
from pellucid.checkpoints.huggingface.names import norm

_OURS, _THEIRS = "decoder.blocks.{n}", "model.layers.{n}"


def _read(attributes: Table, stored: Found) -> config.Transformer:
    bias: bool = attributes["attention_bias"]
    attention = read_attention(attributes, qkv_bias=bias, out_bias=bias)
    return read_decoder(
        attributes,
        replace(attention, qk_norm=rms_norm(attributes), qk_norm_over="all_heads"),
        norm=rms_norm(attributes),
        residual=config.OutputNorm(),
        feed_forward=gated(attributes),
    )


def _describe(model: config.Transformer) -> Table:
    described = describe_decoder(model)
    del described["head_dim"]  # it is hidden_size / num_attention_heads
    return {**described, "attention_bias": multi_head(lone_decoder(model)).qkv_bias}


OLMO2 = Family(
    model_type="olmo2",
    architectures=("Olmo2ForCausalLM",),
    rules={**RULES, "rms_norm_eps": Read(float, 1e-5), "attention_bias": Read(bool, False)},
    names={
        **NAMES,
        **dict(norm(f"{_OURS}.attention_norm", f"{_THEIRS}.post_attention_layernorm")),
        **dict(norm(f"{_OURS}.feed_forward_norm", f"{_THEIRS}.post_feedforward_layernorm")),
    },
    read=_read,
    describe=_describe,
    architecture_of=lambda model: "Olmo2ForCausalLM",
    prefix="model.",
    left_out=LEFT_OUT,
)
