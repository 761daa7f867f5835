"""A small model of each architecture of llama.cpp: of a preset, or of a published config."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from pellucid import config
from pellucid.checkpoints.huggingface import FAMILIES
from pellucid.checkpoints.huggingface.attributes import read_attributes
from pellucid.checkpoints.huggingface.mapping import DirectoryContents
from support.exported import ROWS, small_preset

#: Architectures whose model is a preset: small, and with widths that divide into blocks of q8_0.
PRESETS = {
    "gptneox": "nano",
    "gpt2": "gpt2",
    "llama": "llama3.2-1b",
    "qwen2": "qwen2-0.5b",
    "qwen3": "qwen3-0.6b",
    "olmo2": "olmo2-1b",
    "gemma2": "gemma2-2b",
    "t5": "t5-1.1-small",
    "bert": "minilm-l6",
}


class Case(NamedTuple):
    """An architecture, and what the `config.json` of a family says besides the sizes."""

    architecture: str
    family: str
    table: dict[str, Any]


#: Sizes under every name that a family has for them; each reads those that it knows.
_SIZES: dict[str, Any] = {
    "vocab_size": ROWS,
    "hidden_size": 64,
    "d_model": 64,
    "dim": 64,
    "intermediate_size": 96,
    "hidden_dim": 96,
    "d_ff": 96,
    "num_hidden_layers": 4,
    "n_layer": 4,
    "n_layers": 4,
    "num_layers": 4,
    "num_attention_heads": 4,
    "n_head": 4,
    "n_heads": 4,
    "num_heads": 4,
    "d_kv": 16,
    "max_position_embeddings": 130,
    "max_seq_len": 130,
    "num_key_value_heads": 2,
    "head_dim": 16,
}
_EXPERTS: dict[str, Any] = {
    "num_local_experts": 4,
    "num_experts": 4,
    "n_routed_experts": 8,
    "moe_num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_k": 2,
    "moe_intermediate_size": 32,
}
_LATENT: dict[str, Any] = {
    **_EXPERTS,
    "num_key_value_heads": 4,
    "kv_lora_rank": 32,
    "q_lora_rank": 24,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 24,
    "n_shared_experts": 2,
    "first_k_dense_replace": 1,
}
_GRANITE: dict[str, Any] = {
    "embedding_multiplier": 3.0,
    "residual_multiplier": 0.4,
    "attention_multiplier": 0.3,
    "logits_scaling": 2.0,
}
_YARN: dict[str, Any] = {
    "rope_type": "yarn",
    "rope_theta": 1000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 10,
}
_DEFAULT: dict[str, Any] = {"rope_type": "default", "rope_theta": 1000.0}
_LONG: dict[str, Any] = {
    "rope_type": "longrope",
    "rope_theta": 1000.0,
    "long_factor": [float(n) for n in range(2, 10)],
    "short_factor": [1.0 + n / 8 for n in range(8)],
    "original_max_position_embeddings": 300,
}
CASES: dict[str, Case] = {
    "llama with experts": Case("llama", "mixtral", _EXPERTS),
    "qwen2moe": Case("qwen2moe", "qwen2_moe", {**_EXPERTS, "shared_expert_intermediate_size": 64}),
    "qwen3moe": Case("qwen3moe", "qwen3_moe", {**_EXPERTS, "norm_topk_prob": True}),
    "olmoe": Case("olmoe", "olmoe", {**_EXPERTS, "num_key_value_heads": 4}),
    "granitemoe": Case("granitemoe", "granitemoe", {**_EXPERTS, **_GRANITE}),
    "glm4moe": Case(
        "glm4moe",
        "glm4_moe",
        {**_EXPERTS, "routed_scaling_factor": 1.7, "n_group": 4, "topk_group": 2},
    ),
    "glm4moe with norms of queries, two dense layers and two shared experts": Case(
        "glm4moe",
        "glm4_moe",
        {
            **_EXPERTS,
            "use_qk_norm": True,
            "attention_bias": True,
            "first_k_dense_replace": 2,
            "n_shared_experts": 2,
            "norm_topk_prob": False,
        },
    ),
    "ernie4_5-moe": Case("ernie4_5-moe", "ernie4_5_moe", _EXPERTS),
    "ernie4_5-moe without a shared layer": Case(
        "ernie4_5-moe",
        "ernie4_5_moe",
        {**_EXPERTS, "moe_num_shared_experts": 0, "moe_layer_start_index": 0},
    ),
    "gpt-oss": Case(
        "gpt-oss",
        "gpt_oss",
        {**_EXPERTS, "sliding_window": 8, "rope_parameters": {**_YARN, "truncate": True}},
    ),
    "gpt-oss without biases in attention": Case(
        "gpt-oss",
        "gpt_oss",
        {
            **_EXPERTS,
            "attention_bias": False,
            "sliding_window": 8,
            "layer_types": ["full_attention", "sliding_attention"] * 2,
            "rope_parameters": _DEFAULT,
        },
    ),
    "deepseek2": Case("deepseek2", "deepseek_v2", _LATENT),
    "deepseek2 without a latent of queries": Case(
        "deepseek2", "deepseek_v2", {**_LATENT, "q_lora_rank": None, "first_k_dense_replace": 0}
    ),
    "deepseek2 with sigmoids and groups": Case(
        "deepseek2", "deepseek_v3", {**_LATENT, "n_group": 4, "topk_group": 2}
    ),
    "deepseek2 with YaRN": Case(
        "deepseek2",
        "deepseek_v3",
        {
            **_LATENT,
            "n_group": 1,
            "topk_group": 1,
            "rope_interleave": False,
            "rope_parameters": {**_YARN, "mscale": 0.7, "mscale_all_dim": 0.7},
        },
    ),
    "gemma": Case("gemma", "gemma", {}),
    "gemma3": Case(
        "gemma3",
        "gemma3_text",
        {"sliding_window": 8, "query_pre_attn_scalar": 4, "sliding_window_pattern": 3},
    ),
    "gemma3 without windows": Case(
        "gemma3", "gemma3_text", {"layer_types": ["full_attention"] * 4}
    ),
    "gemma2 in the depth of its 27B": Case(
        "gemma2",
        "gemma2",
        {"num_hidden_layers": 46, "query_pre_attn_scalar": 4, "head_dim": 32, "sliding_window": 8},
    ),
    "gemma3 in the depth of its 27B": Case(
        "gemma3",
        "gemma3_text",
        {"num_hidden_layers": 62, "query_pre_attn_scalar": 4, "head_dim": 32, "sliding_window": 8},
    ),
    "granite": Case("granite", "granite", {**_GRANITE, "attention_bias": True, "mlp_bias": True}),
    "phi2": Case("phi2", "phi", {"partial_rotary_factor": 0.5}),
    "phi3": Case(
        "phi3",
        "phi3",
        {
            "rope_parameters": _LONG,
            "max_position_embeddings": 900,
            "original_max_position_embeddings": 300,
            "sliding_window": 280,
        },
    ),
    "phi3 with half of each head rotated": Case("phi3", "phi3", {"partial_rotary_factor": 0.5}),
    "starcoder2": Case("starcoder2", "starcoder2", {}),
    "stablelm": Case("stablelm", "stablelm", {"partial_rotary_factor": 0.5}),
    "stablelm, parallel, with norms of queries": Case(
        "stablelm",
        "stablelm",
        {"use_parallel_residual": True, "qk_layernorm": True, "use_qkv_bias": True},
    ),
    "command-r": Case("command-r", "cohere", {"logit_scale": 0.5}),
    "command-r with norms of queries": Case(
        "command-r", "cohere", {"num_hidden_layers": 64, "use_qk_norm": True}
    ),
    "cohere2": Case("cohere2", "cohere2", {"sliding_window": 8}),
    "nemotron": Case("nemotron", "nemotron", {"attention_bias": True, "mlp_bias": True}),
    "olmo": Case("olmo", "olmo", {"clip_qkv": 0.5}),
    "olmo2 with windows": Case(
        "olmo2",
        "olmo3",
        {
            "sliding_window": 8,
            "rope_parameters": {"full_attention": _YARN, "sliding_attention": _DEFAULT},
        },
    ),
    "exaone4": Case("exaone4", "exaone4", {"sliding_window": None}),
    "exaone4 with windows": Case(
        "exaone4", "exaone4", {"sliding_window": 8, "num_hidden_layers": 64}
    ),
    "smollm3": Case("smollm3", "smollm3", {}),
    "arcee": Case("arcee", "arcee", {}),
    "ernie4_5": Case("ernie4_5", "ernie4_5", {}),
    "seed_oss": Case("seed_oss", "seed_oss", {"head_dim": 32}),
    "chatglm": Case("chatglm", "glm", {}),
    "glm4": Case("glm4", "glm4", {}),
    "falcon": Case("falcon", "falcon", {}),
    "falcon with two norms": Case(
        "falcon", "falcon", {"new_decoder_architecture": True, "num_kv_heads": 2}
    ),
    "starcoder2 of a falcon that is not parallel": Case(
        "starcoder2", "falcon", {"parallel_attn": False, "multi_query": False}
    ),
    "bloom": Case("bloom", "bloom", {}),
    "mpt": Case("mpt", "mpt", {"n_heads": 4}),
    "bert of roberta": Case("bert", "roberta", {"max_position_embeddings": 132}),
    "bert of distilbert": Case("bert", "distilbert", {}),
    "modern-bert": Case("modern-bert", "modernbert", {"local_attention": 8}),
    "llama with YaRN": Case("llama", "llama", {"rope_parameters": _YARN}),
    "arcee with stretched angles": Case(
        "arcee",
        "arcee",
        {
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 1000.0,
                "factor": 4.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 32,
            }
        },
    ),
    "gemma3 with stretched angles": Case(
        "gemma3",
        "gemma3_text",
        {
            "sliding_window": 8,
            "sliding_window_pattern": 2,
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "rope_theta": 1000.0, "factor": 4.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
            },
        },
    ),
    "llama of ministral": Case(
        "llama",
        "ministral",
        {"sliding_window": 40, "layer_types": ["sliding_attention", "full_attention"] * 2},
    ),
    "starcoder": Case("starcoder", "gpt_bigcode", {"n_embd": 64, "n_positions": 130}),
    "hunyuan-dense": Case("hunyuan-dense", "hunyuan_v1_dense", {}),
    "granitemoe with a shared layer": Case(
        "granitemoe",
        "granitemoeshared",
        {**_EXPERTS, **_GRANITE, "shared_intermediate_size": 32},
    ),
    "glm4moe of dots1": Case(
        "glm4moe",
        "dots1",
        {
            **_EXPERTS,
            "n_shared_experts": 2,
            "first_k_dense_replace": 1,
            "norm_topk_prob": True,
            "routed_scaling_factor": 1.7,
        },
    ),
    "t5 of umt5": Case("t5", "umt5", {"num_layers": 2}),
    "t5 of mt5": Case("t5", "mt5", {"num_layers": 2}),
}
#: Every case, by name: its architecture.
MODELS = {**dict.fromkeys(PRESETS, ""), **{name: case.architecture for name, case in CASES.items()}}
MODELS |= {name: name for name in PRESETS}


def published(family: str, table: dict[str, Any]) -> config.Transformer:
    """The model that a `config.json` describes."""
    rules = FAMILIES[family].rules
    sizes = {name: value for name, value in _SIZES.items() if name in rules}
    known_values = {name: value for name, value in table.items() if name in rules}
    attributes = read_attributes({**sizes, **known_values}, rules, family=family)
    contents = DirectoryContents(FAMILIES[family].architectures[0], frozenset())
    return FAMILIES[family].read(attributes, contents)


def tiny(name: str) -> config.Transformer:
    """A model of a case that is small in every way."""
    if name in CASES:
        return published(CASES[name].family, CASES[name].table)
    model = small_preset(PRESETS[name])
    stacks = {
        side: replace(
            stack,
            attention=_narrow(stack.attention),
            cross_attention=None if stack.cross_attention is None else _narrow(stack.attention),
            feed_forward=replace(stack.feed_forward, d_ff=96),
        )
        for side, stack in (("encoder", model.encoder), ("decoder", model.decoder))
        if stack is not None
    }
    return replace(model, d_model=64, **stacks)


def _narrow(attention: Any) -> Any:
    if isinstance(attention, config.Alternating):
        return replace(attention, layers=tuple(map(_narrow, attention.layers)))
    n_kv_heads = 4 if attention.n_heads == attention.n_kv_heads else 2
    window = None if attention.window is None else 8
    scale = attention.scale and (1.0 if attention.scale == 1.0 else 0.5)
    return replace(
        attention, n_heads=4, n_kv_heads=n_kv_heads, d_head=16, window=window, scale=scale
    )
