"""Tiny models of `transformers` with mixtures of experts, several of each family.

Comes in: nothing. Goes out: cases of `support.reference`.
"""

from __future__ import annotations

from typing import Any

_QWEN: dict[str, Any] = {"moe_intermediate_size": 12, "num_experts": 5, "num_experts_per_tok": 2}
_QWEN2 = {**_QWEN, "num_key_value_heads": 2, "shared_expert_intermediate_size": 8}
_GLM: dict[str, Any] = {
    "num_key_value_heads": 2,
    "head_dim": 8,
    "moe_intermediate_size": 12,
    "n_routed_experts": 6,
    "num_experts_per_tok": 2,
}
_ERNIE: dict[str, Any] = {
    "num_key_value_heads": 2,
    "moe_intermediate_size": 12,
    "moe_num_experts": 5,
    "moe_k": 2,
}
_GPT_OSS: dict[str, Any] = {"num_key_value_heads": 2, "head_dim": 8, "num_experts_per_tok": 2}

EXPERT_CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "mixtral": (
        "MixtralForCausalLM",
        "MixtralConfig",
        {"num_key_value_heads": 2, "num_local_experts": 4},
    ),
    "mixtral window, three experts of seven, tied": (
        "MixtralForCausalLM",
        "MixtralConfig",
        {
            "num_key_value_heads": 4,
            "num_local_experts": 7,
            "num_experts_per_tok": 3,
            "sliding_window": 5,
            "head_dim": 6,
            "tie_word_embeddings": True,
        },
    ),
    "mixtral one expert": (
        "MixtralForCausalLM",
        "MixtralConfig",
        {
            "num_key_value_heads": 1,
            "num_local_experts": 3,
            "num_experts_per_tok": 1,
            "hidden_act": "gelu",
        },
    ),
    "ernie4_5_moe": ("Ernie4_5_MoeForCausalLM", "Ernie4_5_MoeConfig", _ERNIE),
    "ernie4_5_moe, layers at intervals, biases, untied": (
        "Ernie4_5_MoeForCausalLM",
        "Ernie4_5_MoeConfig",
        {
            **_ERNIE,
            "num_hidden_layers": 6,
            "moe_layer_start_index": 1,
            "moe_layer_end_index": 4,
            "moe_layer_interval": 2,
            "moe_num_shared_experts": 1,
            "head_dim": 8,
            "use_bias": True,
            "hidden_act": "gelu",
            "tie_word_embeddings": False,
        },
    ),
    "ernie4_5_moe, none shared": (
        "Ernie4_5_MoeForCausalLM",
        "Ernie4_5_MoeConfig",
        {**_ERNIE, "moe_num_shared_experts": 0, "moe_layer_start_index": 0},
    ),
    "granitemoe": (
        "GraniteMoeForCausalLM",
        "GraniteMoeConfig",
        {"num_local_experts": 5, "attention_multiplier": 0.3},
    ),
    "granitemoe, all factors, biases, tied": (
        "GraniteMoeForCausalLM",
        "GraniteMoeConfig",
        {
            "num_key_value_heads": 2,
            "num_local_experts": 4,
            "num_experts_per_tok": 3,
            "hidden_act": "gelu",
            "attention_bias": True,
            "embedding_multiplier": 3.0,
            "residual_multiplier": 0.4,
            "attention_multiplier": 0.5,
            "logits_scaling": 7.0,
            "tie_word_embeddings": True,
        },
    ),
    "qwen2_moe": ("Qwen2MoeForCausalLM", "Qwen2MoeConfig", _QWEN2),
    "qwen2_moe dense layer, window, no biases": (
        "Qwen2MoeForCausalLM",
        "Qwen2MoeConfig",
        {
            **_QWEN2,
            "num_hidden_layers": 3,
            "mlp_only_layers": [1],
            "norm_topk_prob": True,
            "qkv_bias": False,
            "use_sliding_window": True,
            "sliding_window": 4,
            "max_window_layers": 1,
        },
    ),
    "qwen2_moe every other layer": (
        "Qwen2MoeForCausalLM",
        "Qwen2MoeConfig",
        {**_QWEN2, "num_hidden_layers": 3, "decoder_sparse_step": 2},
    ),
    "qwen3_moe": (
        "Qwen3MoeForCausalLM",
        "Qwen3MoeConfig",
        {**_QWEN, "num_key_value_heads": 2, "head_dim": 8, "norm_topk_prob": True},
    ),
    "qwen3_moe dense layer, window, biases, all experts": (
        "Qwen3MoeForCausalLM",
        "Qwen3MoeConfig",
        {
            **_QWEN,
            "num_key_value_heads": 4,
            "head_dim": 4,
            "num_experts_per_tok": 5,
            "mlp_only_layers": [0],
            "attention_bias": True,
            "use_sliding_window": True,
            "sliding_window": 5,
        },
    ),
    "olmoe": (
        "OlmoeForCausalLM",
        "OlmoeConfig",
        {"num_experts": 6, "num_experts_per_tok": 3, "num_key_value_heads": 2},
    ),
    "olmoe biases, normalised, tied": (
        "OlmoeForCausalLM",
        "OlmoeConfig",
        {
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "attention_bias": True,
            "norm_topk_prob": True,
            "tie_word_embeddings": True,
        },
    ),
    "glm4_moe groups": (
        "Glm4MoeForCausalLM",
        "Glm4MoeConfig",
        {**_GLM, "routed_scaling_factor": 1.7, "n_group": 3, "topk_group": 2},
    ),
    "glm4_moe two dense layers, two shared, norms, biases": (
        "Glm4MoeForCausalLM",
        "Glm4MoeConfig",
        {
            **_GLM,
            "num_hidden_layers": 3,
            "n_shared_experts": 2,
            "use_qk_norm": True,
            "attention_bias": True,
            "first_k_dense_replace": 2,
            "norm_topk_prob": False,
        },
    ),
    "gpt_oss": ("GptOssForCausalLM", "GptOssConfig", {**_GPT_OSS, "num_local_experts": 4}),
    "gpt_oss without YaRN and biases": (
        "GptOssForCausalLM",
        "GptOssConfig",
        {
            **_GPT_OSS,
            "num_local_experts": 5,
            "sliding_window": 7,
            "attention_bias": False,
            "swiglu_limit": 0.5,
            "swiglu_alpha": 1.1,
            "rope_parameters": {"rope_theta": 100.0, "rope_type": "default"},
            "layer_types": ["full_attention", "sliding_attention"],
        },
    ),
    "dots1": (
        "Dots1ForCausalLM",
        "Dots1Config",
        {**_GLM, "head_dim": 6, "n_shared_experts": 2, "norm_topk_prob": True},
    ),
    "dots1, dense first, groups, windows, biases": (
        "Dots1ForCausalLM",
        "Dots1Config",
        {
            **_GLM,
            "num_hidden_layers": 3,
            "n_shared_experts": 1,
            "n_group": 3,
            "topk_group": 2,
            "first_k_dense_replace": 1,
            "routed_scaling_factor": 2.5,
            "sliding_window": 5,
            "max_window_layers": 2,
            "attention_bias": True,
            "tie_word_embeddings": True,
        },
    ),
    "flex_olmo": (
        "FlexOlmoForCausalLM",
        "FlexOlmoConfig",
        {"num_experts": 5, "pad_token_id": 0},
    ),
    "flex_olmo, normalised, biases": (
        "FlexOlmoForCausalLM",
        "FlexOlmoConfig",
        {
            "num_key_value_heads": 2,
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "norm_topk_prob": True,
            "attention_bias": True,
            "rms_norm_eps": 1e-3,
            "pad_token_id": 0,
        },
    ),
    "granitemoeshared": (
        "GraniteMoeSharedForCausalLM",
        "GraniteMoeSharedConfig",
        {"num_key_value_heads": 2, "num_local_experts": 4, "shared_intermediate_size": 10},
    ),
    "granitemoeshared, factors, biases, tied": (
        "GraniteMoeSharedForCausalLM",
        "GraniteMoeSharedConfig",
        {
            "num_local_experts": 5,
            "num_experts_per_tok": 3,
            "shared_intermediate_size": 7,
            "embedding_multiplier": 3.0,
            "residual_multiplier": 0.5,
            "logits_scaling": 2.0,
            "attention_multiplier": 0.4,
            "attention_bias": True,
            "tie_word_embeddings": True,
        },
    ),
}
