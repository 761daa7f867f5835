"""Families that differ from Llama by a norm, an activation, a share of rotated features or biases.

Source: Gemma Team 2024, "Gemma"; Lozhkov et al. 2024, "StarCoder 2"; Bellagamba et al. 2024,
"Stable LM 2"; Parmar et al. 2024, "Nemotron-4 15B"; Groeneveld et al. 2024, "OLMo"; GLM Team 2024,
"ChatGLM"; and the released code of Jais 2, Arcee, Helium, ERNIE 4.5 and Seed-OSS.
"""

from __future__ import annotations

from dataclasses import replace

from pellucid.checkpoints.huggingface.activations import activation
from pellucid.checkpoints.huggingface.attributes import Table
from pellucid.checkpoints.huggingface.families.cohere import head_norms
from pellucid.checkpoints.huggingface.families.decoders import (
    ATTENTION,
    BIASES,
    BLOCK,
    FEED,
    HEAD_WIDTH,
    KEY_VALUE_HEADS,
    LAYER,
    NAMES,
    ONE_RANK,
    ROTARY,
    ROWS,
    SIZES,
    decoder_family,
    dropout_row,
    skeleton,
)
from pellucid.checkpoints.huggingface.families.phi import GATE_UP
from pellucid.checkpoints.huggingface.mapping import (
    choice,
    computed,
    fixed,
    flag,
    integer,
    number,
    same_as,
    training_number,
)
from pellucid.checkpoints.huggingface.names import Groups, Names, Source, linear, norm
from pellucid.checkpoints.huggingface.rotary import rotary_row

_LAYER_NORM: Table = {"kind": "LayerNorm", "bias": True}
_BIAS = flag("attention_bias", *BIASES, default=False)
_QKV_BIAS = flag("attention_bias", f"{ATTENTION}.qkv_bias", default=False)
_FEED_BIAS = flag("mlp_bias", f"{FEED}.bias", default=False)
_NO_HEAD_DIM = computed(HEAD_WIDTH.value, f"{ATTENTION}.d_head")
_HALF_ROTARY = rotary_row(share={"partial_rotary_factor": 0.5})
_WIDE_HEADS = integer("head_dim", f"{ATTENTION}.d_head", default=replace(HEAD_WIDTH, absent=128))

GEMMA = decoder_family(
    "gemma",
    "Gemma",
    (
        *ROWS,
        ROTARY,
        activation("hidden_act", f"{FEED}.activation", default="gelu_pytorch_tanh"),
        integer("head_dim", f"{ATTENTION}.d_head", default=256),
        flag("tie_word_embeddings", "embedding.tied", default=True),
        _BIAS,
        fixed("use_bidirectional_attention", None),
    ),
    skeleton=skeleton(
        norm={"kind": "RMSNorm", "unit_offset": True},
        embedding={"kind": "Embedding", "scaled": True},
    ),
)

STARCODER2 = decoder_family(
    "starcoder2",
    "Starcoder2",
    (
        *SIZES,
        KEY_VALUE_HEADS,
        _NO_HEAD_DIM,
        activation("hidden_act", f"{FEED}.activation", default="gelu_pytorch_tanh"),
        number("norm_epsilon", "decoder.norm.eps", default=1e-5),
        flag("use_bias", *BIASES, f"{FEED}.bias", default=True),
        integer("sliding_window", f"{ATTENTION}.window", default=None, or_none=True),
        dropout_row("residual_dropout", "embedding_dropout"),
        flag("tie_word_embeddings", "embedding.tied", default=True),
        ROTARY,
    ),
    skeleton=skeleton(feed_forward={"kind": "MLP"}, norm=_LAYER_NORM),
    names={
        **NAMES,
        **dict(linear(f"{BLOCK}.feed_forward.up", f"{LAYER}.mlp.c_fc")),
        **dict(linear(f"{BLOCK}.feed_forward.down", f"{LAYER}.mlp.c_proj")),
    },
)


def _head_gain(published: str, groups: Groups) -> Source:
    """A gain of each head's own, in a tensor of its own."""
    name = f"{LAYER}.self_attn.{published}.norms.{{h}}.weight"
    return Source(name, groups=groups, spread=True)


STABLELM = decoder_family(
    "stablelm",
    "StableLm",
    (
        *(row for row in ROWS if not row.rules.keys() & {"head_dim", "rms_norm_eps"}),
        integer(
            "num_key_value_heads",
            f"{ATTENTION}.n_kv_heads",
            default=replace(same_as("num_attention_heads"), absent=32),
        ),
        _NO_HEAD_DIM,
        flag("use_qkv_bias", f"{ATTENTION}.qkv_bias", default=False),
        choice(
            "use_parallel_residual",
            {False: {"kind": "PreNorm"}, True: {"kind": "Parallel", "shared_norm": True}},
            "decoder.residual",
            default=False,
        ),
        training_number("hidden_dropout", "decoder.dropout"),
        head_norms("qk_layernorm"),
        number("layer_norm_eps", "decoder.norm.eps", f"{ATTENTION}.qk_norm?.eps", default=1e-5),
        rotary_row(share={"partial_rotary_factor": 0.25}),
    ),
    skeleton=skeleton(norm=_LAYER_NORM, residual=None),
    names={
        **NAMES,
        f"{BLOCK}.attention.query_norm.gain": _head_gain("q_layernorm", "heads"),
        f"{BLOCK}.attention.key_norm.gain": _head_gain("k_layernorm", "kv_heads"),
    },
)

NEMOTRON = decoder_family(
    "nemotron",
    "Nemotron",
    (
        *(row for row in ROWS if "rms_norm_eps" not in row.rules),
        activation("hidden_act", f"{FEED}.activation", default="relu2"),
        number("norm_eps", "decoder.norm.eps", default=1e-5),
        _BIAS,
        _FEED_BIAS,
        _HALF_ROTARY,
    ),
    skeleton=skeleton(feed_forward={"kind": "MLP"}, norm={**_LAYER_NORM, "unit_offset": True}),
)

OLMO = decoder_family(
    "olmo",
    "Olmo",
    (
        *(row for row in ROWS if not row.rules.keys() & {"head_dim", "rms_norm_eps"}),
        _NO_HEAD_DIM,
        _BIAS,
        number("clip_qkv", f"{ATTENTION}.clip", default=None, or_none=True),
        ROTARY,
    ),
    skeleton=skeleton(norm={"kind": "LayerNorm", "eps": 1e-5, "bias": False, "gain": False}),
)

JAIS2 = decoder_family(
    "jais2",
    "Jais2",
    (
        *(row for row in ROWS if "rms_norm_eps" not in row.rules),
        ROTARY,
        activation("hidden_act", f"{FEED}.activation", default="relu2"),
        number("layer_norm_eps", "decoder.norm.eps", default=1e-5),
        flag("attention_bias", *BIASES, default=True),
        flag("mlp_bias", f"{FEED}.bias", default=True),
    ),
    skeleton=skeleton(feed_forward={"kind": "MLP"}, norm=_LAYER_NORM),
    classifies=False,
)

ARCEE = decoder_family(
    "arcee",
    "Arcee",
    (
        *ROWS,
        ROTARY,
        activation("hidden_act", f"{FEED}.activation", default="relu2"),
        number("rms_norm_eps", "decoder.norm.eps", default=1e-5),
        _BIAS,
        _FEED_BIAS,
    ),
    skeleton=skeleton(feed_forward={"kind": "MLP"}),
)

HELIUM = decoder_family(
    "helium",
    "Helium",
    (
        *ROWS,
        integer("head_dim", f"{ATTENTION}.d_head", default=128),
        number("rms_norm_eps", "decoder.norm.eps", default=1e-8),
        _QKV_BIAS,
        _FEED_BIAS,
        rotary_row(base=100_000.0, interleaved=True),
    ),
    skeleton=skeleton(),
)

ERNIE = decoder_family(
    "ernie4_5",
    "Ernie4_5",
    (
        *ROWS,
        _WIDE_HEADS,
        number("rms_norm_eps", "decoder.norm.eps", default=1e-5),
        flag("use_bias", *BIASES, f"{FEED}.bias", default=False),
        flag("tie_word_embeddings", "embedding.tied", default=True),
        rotary_row(base=500_000.0, interleaved=True),
    ),
    skeleton=skeleton(),
    classifies=False,
)

SEED_OSS = decoder_family(
    "seed_oss",
    "SeedOss",
    (
        *ROWS,
        ROTARY,
        _WIDE_HEADS,
        flag("attention_bias", f"{ATTENTION}.qkv_bias", default=True),
        flag("attention_out_bias", f"{ATTENTION}.out_bias", default=False),
        _FEED_BIAS,
        training_number("residual_dropout", "decoder.dropout", default=0.1),
        training_number("attention_dropout", f"{ATTENTION}.dropout", default=0.1),
        ONE_RANK,
    ),
    skeleton=skeleton(),
)

_GLM_ROWS = (
    *ROWS,
    integer("head_dim", f"{ATTENTION}.d_head", default=128),
    number("rms_norm_eps", "decoder.norm.eps", default=0.00000015625),
    flag("attention_bias", f"{ATTENTION}.qkv_bias", default=True),
    rotary_row(share={"partial_rotary_factor": 0.5}, interleaved=True),
)
_SANDWICH: Names = {
    **dict(norm(f"{BLOCK}.attention_norm.before", f"{LAYER}.input_layernorm")),
    **dict(norm(f"{BLOCK}.attention_norm.after", f"{LAYER}.post_self_attn_layernorm")),
    **dict(norm(f"{BLOCK}.feed_forward_norm.before", f"{LAYER}.post_attention_layernorm")),
    **dict(norm(f"{BLOCK}.feed_forward_norm.after", f"{LAYER}.post_mlp_layernorm")),
}

GLM = decoder_family("glm", "Glm", _GLM_ROWS, skeleton=skeleton(), names={**NAMES, **GATE_UP})
GLM4 = decoder_family(
    "glm4",
    "Glm4",
    _GLM_ROWS,
    skeleton=skeleton(residual="SandwichNorm"),
    names={**NAMES, **GATE_UP, **_SANDWICH},
)
