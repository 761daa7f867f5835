"""Mistral: Llama with a sliding window.

Source: Jiang et al. 2023, "Mistral 7B".
"""

from __future__ import annotations

from dataclasses import replace

from pellucid import config
from pellucid.checkpoints.huggingface.attributes import Read, Table
from pellucid.checkpoints.huggingface.classes import with_classes
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


def _read(attributes: Table, stored: Found) -> config.Transformer:
    attention = read_attention(attributes, qkv_bias=False, out_bias=False)
    return read_decoder(
        attributes,
        replace(attention, window=attributes["sliding_window"]),
        norm=rms_norm(attributes),
        residual=config.PreNorm(),
        feed_forward=gated(attributes),
    )


def _describe(model: config.Transformer) -> Table:
    window = multi_head(lone_decoder(model)).window
    return {**describe_decoder(model), "sliding_window": window}


MISTRAL = with_classes(
    Family(
        model_type="mistral",
        architectures=("MistralForCausalLM",),
        rules={**RULES, "sliding_window": Read(int, 4096, or_none=True)},
        names=NAMES,
        read=_read,
        describe=_describe,
        architecture_of=lambda model: "MistralForCausalLM",
        prefix="model.",
        left_out=LEFT_OUT,
    ),
    "MistralForSequenceClassification",
    "score",
    pooling="last",
    bias=False,
)
