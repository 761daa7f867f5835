"""Gemma 2: norms on both sides, soft caps, every other layer a sliding window.

Source: Gemma Team 2024, "Gemma 2: Improving Open Language Models at a Practical Size".
"""

from __future__ import annotations

from dataclasses import replace

from pellucid import config
from pellucid.checkpoints.huggingface.attributes import Ignored, Only, Read, Rules, Table
from pellucid.checkpoints.huggingface.classes import with_classes
from pellucid.checkpoints.huggingface.families.decoders import (
    LEFT_OUT,
    NAMES,
    RULES,
    WINDOW_RULES,
    describe_decoder,
    describe_windows,
    gated,
    read_attention,
    read_decoder,
    read_layers,
    rms_norm,
)
from pellucid.checkpoints.huggingface.family import Family, Found, lone_decoder, multi_head
from pellucid.checkpoints.huggingface.names import norm
from pellucid.config.checks import positive

_ACT = "hidden_activation"
_OURS, _THEIRS = "decoder.blocks.{n}", "model.layers.{n}"
_RULES: Rules = {
    **{name: rule for name, rule in RULES.items() if name != "hidden_act"},
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
    "use_bidirectional_attention": Only(None),
}


def _read(attributes: Table, stored: Found) -> config.Transformer:
    bias: bool = attributes["attention_bias"]
    plain = read_attention(attributes, qkv_bias=bias, out_bias=bias)
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
        feed_forward=gated(attributes, act=_ACT),
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


GEMMA2 = with_classes(
    Family(
        model_type="gemma2",
        architectures=("Gemma2ForCausalLM",),
        rules=_RULES,
        names={
            **NAMES,
            **dict(norm(f"{_OURS}.attention_norm.before", f"{_THEIRS}.input_layernorm")),
            **dict(norm(f"{_OURS}.attention_norm.after", f"{_THEIRS}.post_attention_layernorm")),
            **dict(
                norm(f"{_OURS}.feed_forward_norm.before", f"{_THEIRS}.pre_feedforward_layernorm")
            ),
            **dict(
                norm(f"{_OURS}.feed_forward_norm.after", f"{_THEIRS}.post_feedforward_layernorm")
            ),
        },
        read=_read,
        describe=_describe,
        architecture_of=lambda model: "Gemma2ForCausalLM",
        prefix="model.",
        left_out=LEFT_OUT,
    ),
    "Gemma2ForSequenceClassification",
    "score",
    pooling="last",
    bias=False,
)
