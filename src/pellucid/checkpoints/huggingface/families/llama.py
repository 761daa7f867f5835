"""Llama, and the families that differ from it in a few lines: Mistral, OLMo 2, Qwen 2 and Qwen 3.

Mistral adds a sliding window. OLMo 2 has norms after attention and feed-forward, and norms over
the queries and keys of all heads. Qwen 2 (and 2.5) has biases on queries, keys and values; Qwen 3
has norms of each head's queries and keys instead. In both, only the layers from some layer on may
have a window.

Source: Touvron et al. 2023, "Llama 2"; Grattafiori et al. 2024, "The Llama 3 Herd of Models"; Jiang
et al. 2023, "Mistral 7B"; OLMo et al. 2024, "2 OLMo 2 Furious"; Yang et al. 2024, "Qwen2 Technical
Report"; Yang et al. 2025, "Qwen3 Technical Report".
"""

from __future__ import annotations

from dataclasses import replace

from pellucid import config
from pellucid.checkpoints.huggingface.attributes import FixedValue, Ignored, Read, Rules, Table
from pellucid.checkpoints.huggingface.families.decoders import (
    BLOCK,
    LAYER,
    NAMES,
    ONE_RANK,
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

_BIAS: Rules = {"attention_bias": Read(bool, False)}


def _describe_with_bias(model: config.Transformer) -> Table:
    return {**describe_decoder(model), "attention_bias": multi_head(lone_decoder(model)).qkv_bias}


def _read_llama(attributes: Table, stored: DirectoryContents) -> config.Transformer:
    attention = read_attention(attributes)
    return read_decoder(attributes, attention, mlp_bias=attributes["mlp_bias"])


def _describe_llama(model: config.Transformer) -> Table:
    return {**_describe_with_bias(model), "mlp_bias": lone_decoder(model).feed_forward.bias}


LLAMA = decoder_family(
    "llama",
    "Llama",
    rules={
        **ONE_RANK,
        **_BIAS,
        "mlp_bias": Read(bool, False),
        "rope_interleaved": FixedValue(False),
        "is_llama_config": Ignored("says what model_type says"),
    },
    read=_read_llama,
    describe=_describe_llama,
)


def _read_mistral(attributes: Table, stored: DirectoryContents) -> config.Transformer:
    attention = read_attention(attributes, qkv_bias=False, out_bias=False)
    return read_decoder(attributes, replace(attention, window=attributes["sliding_window"]))


def _describe_mistral(model: config.Transformer) -> Table:
    window = multi_head(lone_decoder(model)).window
    return {**describe_decoder(model), "sliding_window": window}


MISTRAL = decoder_family(
    "mistral",
    "Mistral",
    rules={"sliding_window": Read(int, 4096, or_none=True)},
    read=_read_mistral,
    describe=_describe_mistral,
)


def _read_olmo2(attributes: Table, stored: DirectoryContents) -> config.Transformer:
    attention = read_attention(attributes)
    return read_decoder(
        attributes,
        replace(attention, qk_norm=rms_norm(attributes), qk_norm_over="all_heads"),
        residual=config.OutputNorm(),
    )


def _describe_olmo2(model: config.Transformer) -> Table:
    attributes = _describe_with_bias(model)
    del attributes["head_dim"]  # it is hidden_size / num_attention_heads
    return attributes


OLMO2 = decoder_family(
    "olmo2",
    "Olmo2",
    rules={**_BIAS, "rms_norm_eps": Read(float, 1e-5)},
    names={
        **NAMES,
        **dict(norm(f"{BLOCK}.attention_norm", f"{LAYER}.post_attention_layernorm")),
        **dict(norm(f"{BLOCK}.feed_forward_norm", f"{LAYER}.post_feedforward_layernorm")),
    },
    read=_read_olmo2,
    describe=_describe_olmo2,
    classifies=False,
)


def _read_qwen(attributes: Table, attention: config.MultiHead) -> config.Transformer:
    if not attributes["use_sliding_window"]:
        attributes = {**attributes, "sliding_window": None}
    has_window = attributes["sliding_window"] is not None
    first: int = attributes["max_window_layers"]
    layers = read_layers(attributes, attention, lambda layer: has_window and layer >= first)
    return read_decoder(attributes, layers)


def _read_qwen2(attributes: Table, stored: DirectoryContents) -> config.Transformer:
    return _read_qwen(attributes, read_attention(attributes, qkv_bias=True, out_bias=False))


def _read_qwen3(attributes: Table, stored: DirectoryContents) -> config.Transformer:
    attention = read_attention(attributes)
    return _read_qwen(attributes, replace(attention, qk_norm=rms_norm(attributes)))


def _describe_qwen2(model: config.Transformer) -> Table:
    windows = describe_windows(model)
    return {
        **describe_decoder(model),
        **windows,
        "use_sliding_window": windows["sliding_window"] is not None,
        "max_window_layers": 0,  # layer_types names the layers
    }


def _describe_qwen3(model: config.Transformer) -> Table:
    return {**_describe_qwen2(model), "attention_bias": multi_head(lone_decoder(model)).qkv_bias}


_QWEN_RULES: Rules = {
    **WINDOW_RULES,
    "sliding_window": Read(int, 4096, or_none=True),
    "use_sliding_window": Read(bool, False),
    "max_window_layers": Read(int, 28),
    "use_mrope": FixedValue(False),
}
QWEN2 = decoder_family(
    "qwen2", "Qwen2", rules=_QWEN_RULES, read=_read_qwen2, describe=_describe_qwen2
)
QWEN3 = decoder_family(
    "qwen3",
    "Qwen3",
    rules={**_QWEN_RULES, **_BIAS, "head_dim": Read(int, 128, or_none=True)},
    read=_read_qwen3,
    describe=_describe_qwen3,
)
