"""Qwen 2 and Qwen 3.

Qwen 2 (and 2.5) is Llama with biases on queries, keys and values; Qwen 3 normalises queries and
keys of each head instead. Both may see a window only from some layer on.

Source: Yang et al. 2024, "Qwen2 Technical Report"; Yang et al. 2025, "Qwen3 Technical Report".
"""

from __future__ import annotations

from dataclasses import replace

from pellucid import config
from pellucid.checkpoints.huggingface.attributes import Only, Read, Rules, Table
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

_RULES: Rules = {
    **RULES,
    **WINDOW_RULES,
    "sliding_window": Read(int, 4096, or_none=True),
    "use_sliding_window": Read(bool, False),
    "max_window_layers": Read(int, 28),
    "use_mrope": Only(False),
}


def _read(attributes: Table, attention: config.MultiHead) -> config.Transformer:
    if not attributes["use_sliding_window"]:
        attributes = {**attributes, "sliding_window": None}
    window = attributes["sliding_window"] is not None
    first: int = attributes["max_window_layers"]
    return read_decoder(
        attributes,
        read_layers(attributes, attention, lambda layer: window and layer >= first),
        norm=rms_norm(attributes),
        residual=config.PreNorm(),
        feed_forward=gated(attributes),
    )


def _read2(attributes: Table, stored: Found) -> config.Transformer:
    return _read(attributes, read_attention(attributes, qkv_bias=True, out_bias=False))


def _read3(attributes: Table, stored: Found) -> config.Transformer:
    bias: bool = attributes["attention_bias"]
    attention = read_attention(attributes, qkv_bias=bias, out_bias=bias)
    return _read(attributes, replace(attention, qk_norm=rms_norm(attributes)))


def _describe(model: config.Transformer) -> Table:
    windows = describe_windows(model)
    return {
        **describe_decoder(model),
        **windows,
        "use_sliding_window": windows["sliding_window"] is not None,
        "max_window_layers": 0,  # layer_types says which layers
    }


def _describe3(model: config.Transformer) -> Table:
    return {**_describe(model), "attention_bias": multi_head(lone_decoder(model)).qkv_bias}


QWEN2 = with_classes(
    Family(
        model_type="qwen2",
        architectures=("Qwen2ForCausalLM",),
        rules=_RULES,
        names=NAMES,
        read=_read2,
        describe=_describe,
        architecture_of=lambda model: "Qwen2ForCausalLM",
        prefix="model.",
        left_out=LEFT_OUT,
    ),
    "Qwen2ForSequenceClassification",
    "score",
    pooling="last",
    bias=False,
)
QWEN3 = with_classes(
    Family(
        model_type="qwen3",
        architectures=("Qwen3ForCausalLM",),
        rules={
            **_RULES,
            "attention_bias": Read(bool, False),
            "head_dim": Read(int, 128, or_none=True),
        },
        names=NAMES,
        read=_read3,
        describe=_describe3,
        architecture_of=lambda model: "Qwen3ForCausalLM",
        prefix="model.",
        left_out=LEFT_OUT,
    ),
    "Qwen3ForSequenceClassification",
    "score",
    pooling="last",
    bias=False,
)
