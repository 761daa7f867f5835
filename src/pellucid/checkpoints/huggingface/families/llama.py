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

from pellucid.checkpoints.huggingface.attributes import FixedValue, Read, Rules, Table
from pellucid.checkpoints.huggingface.families.decoders import (
    ATTENTION,
    BIASES,
    BLOCK,
    FEED,
    HEAD_WIDTH,
    LAYER,
    NAMES,
    ONE_RANK,
    RMS_NORM,
    ROTARY,
    ROWS,
    decoder_family,
    skeleton,
    windows_row,
)
from pellucid.checkpoints.huggingface.mapping import (
    computed,
    fixed,
    flag,
    ignored,
    integer,
    number,
)
from pellucid.checkpoints.huggingface.names import Names, norm

_BIAS = flag("attention_bias", *BIASES, default=False)
_QK_NORM: Table = {"qk_norm": RMS_NORM}
_EPS = "decoder.norm.eps", f"{ATTENTION}.qk_norm.eps"

#: The norms follow attention and feed-forward.
OUTPUT_NORM_NAMES: Names = {
    **NAMES,
    **dict(norm(f"{BLOCK}.attention_norm", f"{LAYER}.post_attention_layernorm")),
    **dict(norm(f"{BLOCK}.feed_forward_norm", f"{LAYER}.post_feedforward_layernorm")),
}

LLAMA = decoder_family(
    "llama",
    "Llama",
    (
        *ROWS,
        ROTARY,
        _BIAS,
        flag("mlp_bias", f"{FEED}.bias", default=False),
        ONE_RANK,
        fixed("rope_interleaved", False),
        ignored("says what model_type says", "is_llama_config"),
    ),
    skeleton=skeleton(),
)

MISTRAL = decoder_family(
    "mistral",
    "Mistral",
    (*ROWS, ROTARY, integer("sliding_window", f"{ATTENTION}.window", default=4096, or_none=True)),
    skeleton=skeleton(),
)

OLMO2 = decoder_family(
    "olmo2",
    "Olmo2",
    (
        *(row for row in ROWS if "head_dim" not in row.rules),
        computed(HEAD_WIDTH.value, f"{ATTENTION}.d_head"),
        ROTARY,
        _BIAS,
        number("rms_norm_eps", *_EPS, default=1e-5),
    ),
    skeleton=skeleton(attention={**_QK_NORM, "qk_norm_over": "all_heads"}, residual="OutputNorm"),
    names=OUTPUT_NORM_NAMES,
    classifies=False,
)


_USE: Rules = {
    "use_sliding_window": Read(bool, False),
    "max_window_layers": Read(int, 28),
    "use_mrope": FixedValue(False),
}
_QWEN = (
    *ROWS,
    ROTARY,
    windows_row(
        lambda attributes, layer: layer >= attributes["max_window_layers"],
        enabled=lambda attributes: attributes["use_sliding_window"],
        rules=_USE,
        # layer_types names the layers
        describe=lambda windows: {"use_sliding_window": any(windows), "max_window_layers": 0},
    ),
)

QWEN2 = decoder_family("qwen2", "Qwen2", _QWEN, skeleton=skeleton(attention={"qkv_bias": True}))
QWEN3 = decoder_family(
    "qwen3",
    "Qwen3",
    (
        *_QWEN,
        _BIAS,
        integer("head_dim", f"{ATTENTION}.d_head", default=replace(HEAD_WIDTH, absent=128)),
        number("rms_norm_eps", *_EPS, default=1e-6),
    ),
    skeleton=skeleton(attention=_QK_NORM),
)
