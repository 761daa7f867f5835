"""Gemma 2: norms on both sides, soft caps, every other layer a sliding window.

Source: Gemma Team 2024, "Gemma 2: Improving Open Language Models at a Practical Size".
"""

from __future__ import annotations

from dataclasses import replace

from pellucid import config
from pellucid.checkpoints.huggingface.attributes import FixedValue, Ignored, Read, Rules, Table
from pellucid.checkpoints.huggingface.families.decoders import (
    BLOCK,
    LAYER,
    NAMES,
    WINDOW_RULES,
    decoder_family,
    describe_decoder,
    describe_windows,
    read_attention,
    read_decoder,
    read_layers,
    rms_norm,
)
from pellucid.checkpoints.huggingface.family import DirectoryContents, lone_decoder, multi_head
from pellucid.checkpoints.huggingface.names import norm
from pellucid.config.checks import positive

_ACT = "hidden_activation"
_RULES: Rules = {
    **WINDOW_RULES,
    _ACT: Read(str, "gelu_pytorch_tanh"),
    "sliding_window_size": Ignored("repeats sliding_window"),
    "hidden_act": Ignored("`transformers` reads hidden_activation"),
    "head_dim": Read(int, 256),
    "sliding_window": Read(int, 4096, or_none=True),
    "tie_word_embeddings": Read(bool, True),
    "attention_bias": Read(bool, False),
    "query_pre_attn_scalar": Read(float, 256.0),
    "attn_logit_softcapping": Read(float, 50.0, or_none=True),
    "final_logit_softcapping": Read(float, 30.0, or_none=True),
    "use_bidirectional_attention": FixedValue(None),
}


def _read(attributes: Table, stored: DirectoryContents) -> config.Transformer:
    plain = read_attention(attributes)
    scalar: float = attributes["query_pre_attn_scalar"]
    positive("query_pre_attn_scalar", scalar)
    attention = replace(
        plain,
        scale=None if scalar == plain.d_head else scalar**-0.5,
        soft_cap=attributes["attn_logit_softcapping"],
    )
    model = read_decoder(
        attributes,
        read_layers(attributes, attention, lambda layer: layer % 2 == 0),
        norm=rms_norm(attributes, unit_offset=True),
        residual=config.SandwichNorm(),
        act=_ACT,
    )
    return replace(
        model,
        embedding=replace(model.embedding, scaled=True),
        head=config.LanguageHead(soft_cap=attributes["final_logit_softcapping"]),
    )


def _describe(model: config.Transformer) -> Table:
    attention = multi_head(lone_decoder(model))
    scale = attention.scale
    return {
        **describe_decoder(model, act=_ACT),
        **describe_windows(model),
        "attention_bias": attention.qkv_bias,
        "query_pre_attn_scalar": attention.d_head if scale is None else _scalar(scale),
        "attn_logit_softcapping": attention.soft_cap,
        "final_logit_softcapping": (
            model.head.soft_cap if isinstance(model.head, config.LanguageHead) else None
        ),
    }


def _scalar(scale: float) -> int:
    """The whole number whose inverse root is `scale`, or the nearest to it."""
    return max(1, round(scale**-2))


GEMMA2 = decoder_family(
    "gemma2",
    "Gemma2",
    rules=_RULES,
    names={
        **NAMES,
        **dict(norm(f"{BLOCK}.attention_norm.before", f"{LAYER}.input_layernorm")),
        **dict(norm(f"{BLOCK}.attention_norm.after", f"{LAYER}.post_attention_layernorm")),
        **dict(norm(f"{BLOCK}.feed_forward_norm.before", f"{LAYER}.pre_feedforward_layernorm")),
        **dict(norm(f"{BLOCK}.feed_forward_norm.after", f"{LAYER}.post_feedforward_layernorm")),
    },
    read=_read,
    describe=_describe,
)
