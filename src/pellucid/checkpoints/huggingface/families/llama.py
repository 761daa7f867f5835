"""Llama, 1 to 3.

Source: Touvron et al. 2023, "Llama 2"; Grattafiori et al. 2024, "The Llama 3 Herd of Models".
"""

from __future__ import annotations

from pellucid import config
from pellucid.checkpoints.huggingface.attributes import Ignored, Only, Read, Table
from pellucid.checkpoints.huggingface.classes import with_classes
from pellucid.checkpoints.huggingface.families.decoders import (
    LEFT_OUT,
    NAMES,
    ONE_RANK,
    RULES,
    describe_decoder,
    gated,
    read_attention,
    read_decoder,
    rms_norm,
)
from pellucid.checkpoints.huggingface.family import Family, Found, lone_decoder, multi_head


def _read(attributes: Table, stored: Found) -> config.Transformer:
    bias: bool = attributes["attention_bias"]
    return read_decoder(
        attributes,
        read_attention(attributes, qkv_bias=bias, out_bias=bias),
        norm=rms_norm(attributes),
        residual=config.PreNorm(),
        feed_forward=gated(attributes, bias=attributes["mlp_bias"]),
    )


def _describe(model: config.Transformer) -> Table:
    stack = lone_decoder(model)
    return {
        **describe_decoder(model),
        "attention_bias": multi_head(stack).qkv_bias,
        "mlp_bias": stack.feed_forward.bias,
    }


LLAMA = with_classes(
    Family(
        model_type="llama",
        architectures=("LlamaForCausalLM",),
        rules={
            **RULES,
            **ONE_RANK,
            "attention_bias": Read(bool, False),
            "mlp_bias": Read(bool, False),
            "rope_interleaved": Only(False),
            "is_llama_config": Ignored("says what model_type says"),
        },
        names=NAMES,
        read=_read,
        describe=_describe,
        architecture_of=lambda model: "LlamaForCausalLM",
        prefix="model.",
        left_out=LEFT_OUT,
    ),
    "LlamaForSequenceClassification",
    "score",
    pooling="last",
    bias=False,
)
