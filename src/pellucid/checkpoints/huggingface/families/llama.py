"""Llama, and families that differ from it in a few lines: Mistral, OLMo 2, Qwen 2 and 3, InternLM3.

Mistral adds a sliding window. OLMo 2 has norms after attention and feed-forward, and norms over
the queries and keys of all heads. Qwen 2 (and 2.5) has biases on queries, keys and values; Qwen 3
has norms of each head's queries and keys instead. In both, only the layers from some layer on may
have a window. InternLM3 has other names of attributes, EXAONE also other names of tensors.

Source: Touvron et al. 2023, "Llama 2"; Grattafiori et al. 2024, "The Llama 3 Herd of Models"; Jiang
et al. 2023, "Mistral 7B"; OLMo et al. 2024, "2 OLMo 2 Furious"; Yang et al. 2024, "Qwen2 Technical
Report"; Yang et al. 2025, "Qwen3 Technical Report"; LG AI Research 2024, "EXAONE 3.5"; and the
released code of InternLM3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pellucid.checkpoints.huggingface.attributes import FixedValue, Read, Rules, Table
from pellucid.checkpoints.huggingface.families.decoders import (
    ATTENTION,
    BIASES,
    BLOCK,
    FEED,
    HEAD_WIDTH,
    IGNORED_TENSORS,
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
from pellucid.checkpoints.huggingface.family import LANGUAGE_HEAD, Family
from pellucid.checkpoints.huggingface.mapping import (
    Row,
    computed,
    fixed,
    flag,
    ignored,
    integer,
    number,
    other_name,
    same_as,
)
from pellucid.checkpoints.huggingface.names import Names, norm
from pellucid.checkpoints.huggingface.rotary import rotary_row

_BIAS = flag("attention_bias", *BIASES, default=False)
_QK_NORM: Table = {"qk_norm": RMS_NORM}
_EPS = "decoder.norm.eps", f"{ATTENTION}.qk_norm.eps"

#: The norms follow attention and feed-forward.
OUTPUT_NORMS: Names = {
    **dict(norm(f"{BLOCK}.attention_norm", f"{LAYER}.post_attention_layernorm")),
    **dict(norm(f"{BLOCK}.feed_forward_norm", f"{LAYER}.post_feedforward_layernorm")),
}
OUTPUT_NORM_NAMES: Names = {**NAMES, **OUTPUT_NORMS}

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


def qwen_windows(in_window: Callable[[Table, int], bool]) -> Row:
    """The windows of a Qwen.

    Args:
        in_window: without `layer_types`, whether the layer of this number has a window.
    """
    return windows_row(
        in_window,
        enabled=lambda attributes: attributes["use_sliding_window"],
        rules=_USE,
        # layer_types names the layers
        describe=lambda windows: {"use_sliding_window": any(windows), "max_window_layers": 0},
    )


_QWEN = (
    *ROWS,
    ROTARY,
    qwen_windows(lambda attributes, layer: layer >= attributes["max_window_layers"]),
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

_OWN_CODE = ignored("names the code that came with the files", "auto_map")
_INTERNLM3 = decoder_family(
    "internlm3",
    "Llama",
    (
        *ROWS,
        ROTARY,
        integer("head_dim", f"{ATTENTION}.d_head", default=replace(HEAD_WIDTH, absent=128)),
        number("rms_norm_eps", "decoder.norm.eps", default=1e-5),
        flag("attention_bias", f"{ATTENTION}.qkv_bias", default=False),
        flag("mlp_bias", f"{ATTENTION}.out_bias", f"{FEED}.bias", default=False),
        other_name("attention_bias", "qkv_bias"),
        other_name("mlp_bias", "bias"),
        _OWN_CODE,
    ),
    skeleton=skeleton(),
)
#: `transformers` has its class in Llama's.
INTERNLM3 = replace(_INTERNLM3, heads={"InternLM3ForCausalLM": LANGUAGE_HEAD, **_INTERNLM3.heads})

#: What EXAONE calls the parts of Llama, in this order.
_EXAONE_PARTS = {
    "model.embed_tokens.": "transformer.wte.",
    "model.layers.": "transformer.h.",
    "model.norm.": "transformer.ln_f.",
    "self_attn.o_proj.": "attn.attention.out_proj.",
    "self_attn.": "attn.attention.",
    "post_attention_layernorm.": "ln_2.",
    "input_layernorm.": "ln_1.",
    "mlp.gate_proj.": "mlp.c_fc_0.",
    "mlp.up_proj.": "mlp.c_fc_1.",
    "mlp.down_proj.": "mlp.c_proj.",
}


def _exaone_name(name: str) -> str:
    for part, other in _EXAONE_PARTS.items():
        name = name.replace(part, other)
    return name


EXAONE = Family(
    model_type="exaone",
    heads={"ExaoneForCausalLM": LANGUAGE_HEAD, "LlamaForCausalLM": LANGUAGE_HEAD},
    skeleton=skeleton(),
    rows=(
        *ROWS,
        rotary_row(base=500_000.0),
        integer(
            "num_key_value_heads",
            f"{ATTENTION}.n_kv_heads",
            default=replace(same_as("num_attention_heads"), absent=8),
        ),
        number("rms_norm_eps", "decoder.norm.eps", default=1e-5),
        ignored("only in training", "embed_dropout"),
        _BIAS,
        flag("mlp_bias", f"{FEED}.bias", default=False),
        other_name("num_hidden_layers", "num_layers"),
        other_name("rms_norm_eps", "layer_norm_epsilon"),
        other_name("hidden_act", "activation_function"),
        _OWN_CODE,
    ),
    # the names of the class, which adapters need; its first files have others
    names=NAMES,
    other_names={
        path: replace(source, name=_exaone_name(source.name)) for path, source in NAMES.items()
    },
    ignored_tensors=IGNORED_TENSORS,
)
