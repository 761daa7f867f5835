"""Tiny random models of `transformers`, one or more of each family, and what they say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pellucid.checkpoints.huggingface import Published, open_published
from pellucid.model import Transformer
from pellucid.saved_runs.published import build_published
from support.expert_cases import EXPERT_CASES
from support.later_cases import LATER_CASES

#: Longer than any window and any original context below.
LENGTH = 32
VOCAB = 29
_COMMON: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": LENGTH,
    "initializer_range": 0.2,
}
_GPT2: dict[str, Any] = {
    "vocab_size": VOCAB,
    "n_positions": LENGTH,
    "n_embd": 16,
    "n_layer": 2,
    "n_head": 4,
    "initializer_range": 0.2,
}
_T5: dict[str, Any] = {
    "vocab_size": VOCAB,
    "d_model": 16,
    "d_kv": 4,
    "d_ff": 24,
    "num_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": 0,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 12,
}
_BART: dict[str, Any] = {
    "vocab_size": VOCAB,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 20,
    "max_position_embeddings": LENGTH,
    "init_std": 0.2,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": None,
}
#: Stacks of different depth and width, and scaled embeddings.
_UNEVEN: dict[str, Any] = {
    "encoder_layers": 1,
    "decoder_layers": 3,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 8,
    "encoder_ffn_dim": 7,
    "scale_embedding": True,
}
_BLOOM: dict[str, Any] = {
    "vocab_size": VOCAB, "hidden_size": 16, "n_layer": 2, "n_head": 4, "seq_length": LENGTH,
    "initializer_range": 0.2,
}  # fmt: skip
_GPT_NEO: dict[str, Any] = {
    "vocab_size": VOCAB, "hidden_size": 16, "num_layers": 2, "num_heads": 4, "window_size": 5,
    "attention_types": [[["global", "local"], 1]], "max_position_embeddings": LENGTH,
    "initializer_range": 0.2,
}  # fmt: skip
_FALCON: dict[str, Any] = {
    "vocab_size": VOCAB, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": LENGTH, "initializer_range": 0.2,
}  # fmt: skip
_OPT: dict[str, Any] = {
    "vocab_size": VOCAB, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
    "ffn_dim": 24, "max_position_embeddings": LENGTH, "init_std": 0.2,
}  # fmt: skip
_MPT: dict[str, Any] = {
    "vocab_size": VOCAB, "d_model": 16, "n_layers": 2, "n_heads": 4, "max_seq_len": LENGTH,
    "initializer_range": 0.2,
}  # fmt: skip
_DEEPSEEK: dict[str, Any] = {
    "num_hidden_layers": 3, "num_key_value_heads": 4, "kv_lora_rank": 8, "qk_nope_head_dim": 6,
    "qk_rope_head_dim": 4, "v_head_dim": 5, "moe_intermediate_size": 12, "n_routed_experts": 8,
    "num_experts_per_tok": 3, "first_k_dense_replace": 1,
}  # fmt: skip
_MSCALE = {
    "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8, "mscale": 0.7,
    "mscale_all_dim": 0.9, "rope_theta": 1e4,
}  # fmt: skip
_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8,
}
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8}
_LONGROPE = {"rope_type": "longrope", "short_factor": [1.0, 1.3], "long_factor": [1.5, 4.0]}
_GLM: dict[str, Any] = {"num_key_value_heads": 2, "head_dim": 8, "pad_token_id": 0}
_HALF: dict[str, Any] = {
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}
}

#: Id 0 is what fills up a row; the tests draw ids above 2.
_CLASSES: dict[str, Any] = {"num_labels": 3, "pad_token_id": 0}
_GROUPED: dict[str, Any] = {**_CLASSES, "num_key_value_heads": 2}
_NAMED: dict[str, Any] = {
    "id2label": {0: "ham", 1: "spam"},
    "label2id": {"ham": 0, "spam": 1},
    "problem_type": "multi_label_classification",
}

#: The table of positions begins behind the padding id, which is 1.
_BEHIND_PADDING: dict[str, Any] = {"max_position_embeddings": LENGTH + 2}
_DISTIL: dict[str, Any] = {
    "vocab_size": VOCAB,
    "dim": 16,
    "n_layers": 2,
    "n_heads": 4,
    "hidden_dim": 24,
    "max_position_embeddings": LENGTH,
    "initializer_range": 0.2,
}
_MODERNBERT: dict[str, Any] = {
    "num_hidden_layers": 3,
    "local_attention": 8,
    "pad_token_id": 0,
}
_DEBERTA: dict[str, Any] = {
    "relative_attention": True,
    "pos_att_type": ["c2p", "p2c"],
    "position_buckets": 6,
    "share_att_key": True,
    "norm_rel_ebd": "layer_norm",
    "position_biased_input": False,
}

#: Name of the case: the class, the config's class, and what the config says.
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama": ("LlamaForCausalLM", "LlamaConfig", {"num_key_value_heads": 2}),
    "llama multi-query, tied, biases": (
        "LlamaForCausalLM",
        "LlamaConfig",
        {
            "num_key_value_heads": 1,
            "tie_word_embeddings": True,
            "attention_bias": True,
            "mlp_bias": True,
            "head_dim": 6,
        },
    ),
    "llama 3 scaling": ("LlamaForCausalLM", "LlamaConfig", {"rope_scaling": _LLAMA3}),
    "llama linear scaling": (
        "LlamaForCausalLM",
        "LlamaConfig",
        {"rope_scaling": {"rope_type": "linear", "factor": 2.0}},
    ),
    "llama yarn": ("LlamaForCausalLM", "LlamaConfig", {"rope_scaling": _YARN}),
    "llama dynamic": (
        "LlamaForCausalLM",
        "LlamaConfig",
        {
            "max_position_embeddings": LENGTH // 2 + 2,
            "rope_scaling": {"rope_type": "dynamic", "factor": 2.0},
        },
    ),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", {}),
    "gpt2 untied, wide, relu": (
        "GPT2LMHeadModel",
        "GPT2Config",
        {"n_inner": 40, "activation_function": "relu", "tie_word_embeddings": False},
    ),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", {"num_key_value_heads": 2}),
    "qwen2 window": (
        "Qwen2ForCausalLM",
        "Qwen2Config",
        {
            "num_key_value_heads": 2,
            "tie_word_embeddings": True,
            "use_sliding_window": True,
            "sliding_window": 4,
            "max_window_layers": 1,
        },
    ),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", {"num_key_value_heads": 2, "head_dim": 8}),
    "mistral": (
        "MistralForCausalLM",
        "MistralConfig",
        {"num_key_value_heads": 2, "sliding_window": 5},
    ),
    "mistral without window": (
        "MistralForCausalLM",
        "MistralConfig",
        {"num_key_value_heads": 4, "sliding_window": None},
    ),
    "gpt_neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", {"rotary_pct": 0.5}),
    "gpt_neox in sequence": (
        "GPTNeoXForCausalLM",
        "GPTNeoXConfig",
        {"rotary_pct": 1.0, "use_parallel_residual": False, "attention_bias": False},
    ),
    "olmo2": ("Olmo2ForCausalLM", "Olmo2Config", {"num_key_value_heads": 2}),
    "gemma2": (
        "Gemma2ForCausalLM",
        "Gemma2Config",
        {
            "num_key_value_heads": 2,
            "head_dim": 8,
            "query_pre_attn_scalar": 16,
            "sliding_window": 4,
            "attn_logit_softcapping": 2.0,
            "final_logit_softcapping": 3.0,
        },
    ),
    "gemma": ("GemmaForCausalLM", "GemmaConfig", {"num_key_value_heads": 2, "head_dim": 6}),
    "granite": (
        "GraniteForCausalLM",
        "GraniteConfig",
        {
            "num_key_value_heads": 2,
            "embedding_multiplier": 12.0,
            "residual_multiplier": 0.22,
            "attention_multiplier": 0.3,
            "logits_scaling": 7.0,
            "attention_bias": True,
            "mlp_bias": True,
        },
    ),
    "phi": ("PhiForCausalLM", "PhiConfig", {"num_key_value_heads": 2}),
    "phi with norms of queries and keys": (
        "PhiForCausalLM",
        "PhiConfig",
        {"qk_layernorm": True, "tie_word_embeddings": True},
    ),
    "phi3 window": ("Phi3ForCausalLM", "Phi3Config", {"sliding_window": 5, "pad_token_id": 0}),
    "phi3 longrope": (
        "Phi3ForCausalLM",
        "Phi3Config",
        {
            "num_key_value_heads": 2,
            "rope_scaling": _LONGROPE,
            "original_max_position_embeddings": 9,
            "pad_token_id": 0,
            "initializer_range": 0.1,
        },
    ),
    "gptj": ("GPTJForCausalLM", "GPTJConfig", {"rotary_dim": 2}),
    "gptj tied, relu": (
        "GPTJForCausalLM",
        "GPTJConfig",
        {
            "rotary_dim": 4,
            "n_inner": 30,
            "activation_function": "relu",
            "tie_word_embeddings": True,
        },
    ),
    "codegen": ("CodeGenForCausalLM", "CodeGenConfig", {"rotary_dim": 2}),
    "starcoder2": (
        "Starcoder2ForCausalLM",
        "Starcoder2Config",
        {"num_key_value_heads": 2, "sliding_window": 6},
    ),
    "stablelm": (
        "StableLmForCausalLM",
        "StableLmConfig",
        {**_HALF, "use_qkv_bias": True, "num_key_value_heads": 4},
    ),
    "stablelm parallel": (
        "StableLmForCausalLM",
        "StableLmConfig",
        {**_HALF, "use_parallel_residual": True, "num_key_value_heads": 2},
    ),
    "stablelm, norms of each head": (
        "StableLmForCausalLM",
        "StableLmConfig",
        {**_HALF, "num_key_value_heads": 2, "qk_layernorm": True, "use_parallel_residual": True},
    ),
    "stablelm, norms of each head, one key": (
        "StableLmForCausalLM",
        "StableLmConfig",
        {**_HALF, "num_key_value_heads": 1, "qk_layernorm": True, "layer_norm_eps": 1e-3},
    ),
    "nemotron": (
        "NemotronForCausalLM",
        "NemotronConfig",
        {"num_key_value_heads": 2, "mlp_bias": True, "head_dim": 8},
    ),
    "olmo": ("OlmoForCausalLM", "OlmoConfig", {"num_key_value_heads": 2, "clip_qkv": 0.7}),
    "arcee": ("ArceeForCausalLM", "ArceeConfig", {"attention_bias": True, "head_dim": 6}),
    "helium": (
        "HeliumForCausalLM",
        "HeliumConfig",
        {"num_key_value_heads": 2, "head_dim": 4, "attention_bias": True, "pad_token_id": 0},
    ),
    "ernie4_5": (
        "Ernie4_5ForCausalLM",
        "Ernie4_5Config",
        {"num_key_value_heads": 2, "head_dim": 6, "use_bias": True},
    ),
    "seed_oss": (
        "SeedOssForCausalLM",
        "SeedOssConfig",
        {
            "num_key_value_heads": 2,
            "head_dim": 6,
            "attention_out_bias": True,
            # it is written as a llama, which has none
            "residual_dropout": 0.0,
        },
    ),
    "glm": ("GlmForCausalLM", "GlmConfig", _GLM),
    "glm4": ("Glm4ForCausalLM", "Glm4Config", _GLM),
    "gemma3_text": (
        "Gemma3ForCausalLM",
        "Gemma3TextConfig",
        {
            "num_hidden_layers": 3,
            "num_key_value_heads": 2,
            "head_dim": 6,
            "query_pre_attn_scalar": 10,
            "sliding_window": 4,
            "sliding_window_pattern": 2,
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 300.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
            },
        },
    ),
    "gemma3_text capped, biases, untied": (
        "Gemma3ForCausalLM",
        "Gemma3TextConfig",
        {
            "num_key_value_heads": 4,
            "head_dim": 8,
            "sliding_window": 5,
            "layer_types": ["full_attention", "sliding_attention"],
            "final_logit_softcapping": 2.0,
            "attention_bias": True,
            "tie_word_embeddings": False,
            "hidden_activation": "silu",
        },
    ),
    "olmo3": (
        "Olmo3ForCausalLM",
        "Olmo3Config",
        {
            "num_key_value_heads": 2,
            "num_hidden_layers": 5,
            "sliding_window": 4,
            "rope_scaling": _YARN,
        },
    ),
    "olmo3 other bases, biases": (
        "Olmo3ForCausalLM",
        "Olmo3Config",
        {
            "sliding_window": 3,
            "layer_types": ["full_attention", "sliding_attention"],
            "attention_bias": True,
            "tie_word_embeddings": True,
            "rope_parameters": {
                "full_attention": {"rope_type": "default", "rope_theta": 70.0},
                "sliding_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 20.0},
            },
        },
    ),
    "smollm3": ("SmolLM3ForCausalLM", "SmolLM3Config", {"num_hidden_layers": 5, "pad_token_id": 0}),
    # biases of keys without rotation have no gradient, and theirs is rounding
    "smollm3 biases": (
        "SmolLM3ForCausalLM",
        "SmolLM3Config",
        {"pad_token_id": 0, "no_rope_layers": [1, 1], "attention_bias": True},
    ),
    "smollm3 windows, untied": (
        "SmolLM3ForCausalLM",
        "SmolLM3Config",
        {
            "num_key_value_heads": 2,
            "num_hidden_layers": 3,
            "pad_token_id": 0,
            "no_rope_layers": [0, 1, 0],
            "use_sliding_window": True,
            "sliding_window": 4,
            "mlp_bias": True,
            "tie_word_embeddings": False,
        },
    ),
    "exaone4": (
        "Exaone4ForCausalLM",
        "Exaone4Config",
        {"num_key_value_heads": 2, "num_hidden_layers": 5, "sliding_window": 4},
    ),
    "exaone4 without windows": (
        "Exaone4ForCausalLM",
        "Exaone4Config",
        {
            "num_key_value_heads": 4,
            "sliding_window": None,
            "layer_types": ["full_attention"] * 2,
            "tie_word_embeddings": True,
            "rope_scaling": _LLAMA3,
        },
    ),
    "exaone4 without rotation": (
        "Exaone4ForCausalLM",
        "Exaone4Config",
        {"num_key_value_heads": 4, "sliding_window": 8, "layer_types": ["full_attention"] * 2},
    ),
    "bert": ("BertForMaskedLM", "BertConfig", {}),
    "bert without head": ("BertModel", "BertConfig", {}),
    "bert with all heads": ("BertForPreTraining", "BertConfig", {}),
    "classes llama": ("LlamaForSequenceClassification", "LlamaConfig", _GROUPED),
    "classes phi": ("PhiForSequenceClassification", "PhiConfig", _CLASSES),
    "classes gptj": ("GPTJForSequenceClassification", "GPTJConfig", _CLASSES | {"rotary_dim": 2}),
    "classes starcoder2": ("Starcoder2ForSequenceClassification", "Starcoder2Config", _GROUPED),
    "classes nemotron": ("NemotronForSequenceClassification", "NemotronConfig", _GROUPED),
    "classes glm": ("GlmForSequenceClassification", "GlmConfig", _GROUPED | {"head_dim": 8}),
    "classes gpt2": ("GPT2ForSequenceClassification", "GPT2Config", _CLASSES),
    "classes qwen2": ("Qwen2ForSequenceClassification", "Qwen2Config", _GROUPED),
    "classes qwen3": ("Qwen3ForSequenceClassification", "Qwen3Config", _GROUPED | {"head_dim": 8}),
    "classes mistral": ("MistralForSequenceClassification", "MistralConfig", _GROUPED),
    "classes gemma2": (
        "Gemma2ForSequenceClassification",
        "Gemma2Config",
        _GROUPED | {"head_dim": 4, "query_pre_attn_scalar": 16, "sliding_window": 4},
    ),
    "classes gpt_neox": (
        "GPTNeoXForSequenceClassification",
        "GPTNeoXConfig",
        _CLASSES | {"rotary_pct": 0.5},
    ),
    "classes gemma3_text": (
        "Gemma3TextForSequenceClassification",
        "Gemma3TextConfig",
        _GROUPED | {"head_dim": 4, "sliding_window": 4, "sliding_window_pattern": 2},
    ),
    "classes olmo3": ("Olmo3ForSequenceClassification", "Olmo3Config", _CLASSES),
    "classes smollm3": ("SmolLM3ForSequenceClassification", "SmolLM3Config", _GROUPED),
    "classes exaone4": (
        "Exaone4ForSequenceClassification",
        "Exaone4Config",
        _GROUPED | {"sliding_window": 4, "sliding_window_pattern": 2},
    ),
    "classes bert": ("BertForSequenceClassification", "BertConfig", _NAMED),
    **EXPERT_CASES,
    **LATER_CASES,
    "classes mixtral": (
        "MixtralForSequenceClassification",
        "MixtralConfig",
        _GROUPED | {"num_local_experts": 4},
    ),
    "classes gpt_oss": (
        "GptOssForSequenceClassification",
        "GptOssConfig",
        _GROUPED | {"head_dim": 4, "num_local_experts": 4, "num_experts_per_tok": 2},
    ),
    "encoder roberta": ("RobertaForMaskedLM", "RobertaConfig", _BEHIND_PADDING),
    "encoder roberta, untied": (
        "RobertaForMaskedLM",
        "RobertaConfig",
        {**_BEHIND_PADDING, "tie_word_embeddings": False, "hidden_act": "relu"},
    ),
    "encoder roberta without head": ("RobertaModel", "RobertaConfig", _BEHIND_PADDING),
    "encoder xlm-roberta": ("XLMRobertaForMaskedLM", "XLMRobertaConfig", _BEHIND_PADDING),
    "encoder camembert": (
        "CamembertForMaskedLM",
        "CamembertConfig",
        {**_BEHIND_PADDING, "max_position_embeddings": LENGTH + 3, "pad_token_id": 2},
    ),
    "encoder distilbert": ("DistilBertForMaskedLM", "DistilBertConfig", _DISTIL),
    "encoder distilbert, sines": (
        "DistilBertModel",
        "DistilBertConfig",
        {**_DISTIL, "sinusoidal_pos_embds": True, "activation": "relu"},
    ),
    "encoder electra": ("ElectraForMaskedLM", "ElectraConfig", {"embedding_size": 6}),
    "encoder electra, as wide": ("ElectraForMaskedLM", "ElectraConfig", {"embedding_size": 16}),
    "encoder electra discriminator, without head": (
        "ElectraForPreTraining",
        "ElectraConfig",
        {"embedding_size": 24},
    ),
    "encoder albert": (
        "AlbertForMaskedLM",
        "AlbertConfig",
        {"embedding_size": 6, "num_hidden_groups": 2, "num_hidden_layers": 3},
    ),
    "encoder albert, groups of two, without head": (
        "AlbertModel",
        "AlbertConfig",
        {"embedding_size": 16, "inner_group_num": 2, "hidden_act": "gelu"},
    ),
    "encoder albert with all heads": (
        "AlbertForPreTraining",
        "AlbertConfig",
        {"embedding_size": 6},
    ),
    "encoder mpnet": ("MPNetForMaskedLM", "MPNetConfig", _BEHIND_PADDING),
    "encoder deberta-v2": ("DebertaV2ForMaskedLM", "DebertaV2Config", _DEBERTA),
    "encoder deberta-v2, one term, own projections": (
        "DebertaV2ForMaskedLM",
        "DebertaV2Config",
        {
            **_DEBERTA,
            "pos_att_type": "c2p",
            "share_att_key": False,
            "position_biased_input": True,
            "position_buckets": -1,
            "max_relative_positions": 6,
            "type_vocab_size": 2,
            "embedding_size": 10,
        },
    ),
    "encoder deberta-v2, absolute, without head": ("DebertaV2Model", "DebertaV2Config", {}),
    "encoder deberta-v2, the later head": (
        "DebertaV2ForMaskedLM",
        "DebertaV2Config",
        {**_DEBERTA, "legacy": False, "pos_att_type": ["p2c"], "norm_rel_ebd": "none"},
    ),
    "encoder modernbert": ("ModernBertForMaskedLM", "ModernBertConfig", _MODERNBERT),
    "encoder modernbert, other layers, biases, untied": (
        "ModernBertForMaskedLM",
        "ModernBertConfig",
        {
            **_MODERNBERT,
            "local_attention": 5,
            "layer_types": ["sliding_attention", "full_attention", "full_attention"],
            "rope_parameters": {
                "full_attention": {"rope_type": "default", "rope_theta": 300.0},
                "sliding_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 70.0},
            },
            **dict.fromkeys(("norm_bias", "attention_bias", "mlp_bias", "classifier_bias"), True),
            "decoder_bias": False,
            "hidden_activation": "silu",
            "classifier_activation": "relu",
            "tie_word_embeddings": False,
        },
    ),
    "encoder modernbert, whole texts, without head": (
        "ModernBertModel",
        "ModernBertConfig",
        {**_MODERNBERT, "global_attn_every_n_layers": 1, "norm_eps": 1e-3},
    ),
    "classes modernbert": (
        "ModernBertForSequenceClassification",
        "ModernBertConfig",
        _MODERNBERT | _NAMED,
    ),
    "classes modernbert, mean": (
        "ModernBertForSequenceClassification",
        "ModernBertConfig",
        _MODERNBERT | {"num_labels": 3, "classifier_pooling": "mean", "norm_bias": True},
    ),
    "encoder ernie": ("ErnieForMaskedLM", "ErnieConfig", {}),
    "encoder bert-generation, without head": (
        "BertGenerationEncoder",
        "BertGenerationConfig",
        {},
    ),
    "classes roberta": (
        "RobertaForSequenceClassification",
        "RobertaConfig",
        _BEHIND_PADDING | _NAMED,
    ),
    "classes distilbert": (
        "DistilBertForSequenceClassification",
        "DistilBertConfig",
        _DISTIL | _NAMED,
    ),
    "classes electra": (
        "ElectraForSequenceClassification",
        "ElectraConfig",
        _NAMED | {"embedding_size": 6},
    ),
    "classes albert": (
        "AlbertForSequenceClassification",
        "AlbertConfig",
        _NAMED | {"embedding_size": 6},
    ),
    "classes mpnet": (
        "MPNetForSequenceClassification",
        "MPNetConfig",
        _BEHIND_PADDING | _NAMED,
    ),
    "classes deberta-v2": (
        "DebertaV2ForSequenceClassification",
        "DebertaV2Config",
        _DEBERTA | _NAMED | {"pooler_hidden_act": "tanh"},
    ),
    "mt5": ("MT5ForConditionalGeneration", "MT5Config", {"num_decoder_layers": 1}),
    "mt5 plain relu": (
        "MT5ForConditionalGeneration",
        "MT5Config",
        {"feed_forward_proj": "relu", "d_kv": 6},
    ),
    "bart": ("BartForConditionalGeneration", "BartConfig", {}),
    "bart uneven": ("BartForConditionalGeneration", "BartConfig", _UNEVEN),
    "mbart": ("MBartForConditionalGeneration", "MBartConfig", {"activation_function": "relu"}),
    "mbart uneven": ("MBartForConditionalGeneration", "MBartConfig", _UNEVEN),
    "marian": ("MarianMTModel", "MarianConfig", {"activation_function": "swish"}),
    "marian uneven": (
        "MarianMTModel",
        "MarianConfig",
        _UNEVEN | {"scale_embedding": False, "activation_function": "gelu_new"},
    ),
    "pegasus": ("PegasusForConditionalGeneration", "PegasusConfig", {"scale_embedding": True}),
    "pegasus uneven": ("PegasusForConditionalGeneration", "PegasusConfig", _UNEVEN),
    "blenderbot": ("BlenderbotForConditionalGeneration", "BlenderbotConfig", {}),
    "blenderbot uneven": ("BlenderbotForConditionalGeneration", "BlenderbotConfig", _UNEVEN),
    "gpt2, other scales": (
        "GPT2LMHeadModel",
        "GPT2Config",
        {"scale_attn_weights": False, "scale_attn_by_inverse_layer_idx": True, "n_layer": 3},
    ),
    "bloom": ("BloomForCausalLM", "BloomConfig", {}),
    "bloom, untied": (
        "BloomForCausalLM",
        "BloomConfig",
        {"n_head": 3, "hidden_size": 18, "tie_word_embeddings": False},
    ),
    "classes bloom": ("BloomForSequenceClassification", "BloomConfig", _CLASSES),
    "gpt_neo": ("GPTNeoForCausalLM", "GPTNeoConfig", {}),
    "gpt_neo, other windows": (
        "GPTNeoForCausalLM",
        "GPTNeoConfig",
        {
            "num_layers": 3,
            "attention_types": [[["local"], 1], [["global", "local"], 1]],
            "window_size": 3,
            "intermediate_size": 20,
            "activation_function": "gelu",
            "tie_word_embeddings": False,
        },
    ),
    "classes gpt_neo": ("GPTNeoForSequenceClassification", "GPTNeoConfig", _CLASSES),
    "opt": ("OPTForCausalLM", "OPTConfig", {}),
    "opt, narrow vectors, norms after the layers": (
        "OPTForCausalLM",
        "OPTConfig",
        {"word_embed_proj_dim": 6, "do_layer_norm_before": False, "activation_function": "gelu"},
    ),
    "opt, without biases, gains and last norm, untied": (
        "OPTForCausalLM",
        "OPTConfig",
        {
            "enable_bias": False,
            "layer_norm_elementwise_affine": False,
            "_remove_final_layer_norm": True,
            "word_embed_proj_dim": 24,
            "tie_word_embeddings": False,
        },
    ),
    "classes opt": ("OPTForSequenceClassification", "OPTConfig", _CLASSES),
    "falcon": ("FalconForCausalLM", "FalconConfig", {}),
    "falcon, a key for each head, in sequence": (
        "FalconForCausalLM",
        "FalconConfig",
        {"multi_query": False, "parallel_attn": False, "bias": True, "rope_theta": 500.0},
    ),
    "falcon with ALiBi": (
        "FalconForCausalLM",
        "FalconConfig",
        {"num_attention_heads": 6, "hidden_size": 18, "alibi": True, "multi_query": False}
        | {"tie_word_embeddings": False, "ffn_hidden_size": 20, "activation": "relu"},
    ),
    "falcon, new": (
        "FalconForCausalLM",
        "FalconConfig",
        {"new_decoder_architecture": True, "num_kv_heads": 2},
    ),
    "falcon, new, one norm": (
        "FalconForCausalLM",
        "FalconConfig",
        {"new_decoder_architecture": True, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1},
    ),
    "classes falcon": ("FalconForSequenceClassification", "FalconConfig", _CLASSES),
    "cohere": (
        "CohereForCausalLM",
        "CohereConfig",
        {"num_key_value_heads": 2, "use_qk_norm": True, "attention_bias": True},
    ),
    "cohere, untied": (
        "CohereForCausalLM",
        "CohereConfig",
        {"tie_word_embeddings": False, "logit_scale": 0.25, "layer_norm_eps": 1e-3},
    ),
    "cohere2": (
        "Cohere2ForCausalLM",
        "Cohere2Config",
        {"num_hidden_layers": 5, "num_key_value_heads": 2, "sliding_window": 7},
    ),
    "cohere2, other layers": (
        "Cohere2ForCausalLM",
        "Cohere2Config",
        {
            "num_hidden_layers": 3,
            "sliding_window": 5,
            "layer_types": ["full_attention", "sliding_attention", "full_attention"],
            "tie_word_embeddings": False,
            "rope_theta": 300.0,
        },
    ),
    "deepseek_v3": (
        "DeepseekV3ForCausalLM",
        "DeepseekV3Config",
        _DEEPSEEK | {"q_lora_rank": 10, "n_group": 2, "topk_group": 1},
    ),
    "deepseek_v3, half split, yarn, biases": (
        "DeepseekV3ForCausalLM",
        "DeepseekV3Config",
        _DEEPSEEK
        | {
            "q_lora_rank": None,
            "n_group": 1,
            "topk_group": 1,
            "rope_interleave": False,
            "rope_parameters": _MSCALE,
            "attention_bias": True,
            "norm_topk_prob": False,
            "n_shared_experts": 2,
            "first_k_dense_replace": 2,
        },
    ),
    "classes deepseek_v3": (
        "DeepseekV3ForSequenceClassification",
        "DeepseekV3Config",
        _DEEPSEEK | _CLASSES | {"q_lora_rank": 10, "n_group": 4, "topk_group": 2},
    ),
    "deepseek_v2": ("DeepseekV2ForCausalLM", "DeepseekV2Config", _DEEPSEEK | {"q_lora_rank": 10}),
    "deepseek_v2, groups, yarn": (
        "DeepseekV2ForCausalLM",
        "DeepseekV2Config",
        _DEEPSEEK
        | {
            "q_lora_rank": None,
            "topk_method": "group_limited_greedy",
            "n_group": 4,
            "topk_group": 2,
            "routed_scaling_factor": 2.0,
            "rope_parameters": _MSCALE,
            "attention_bias": True,
            "first_k_dense_replace": 0,
        },
    ),
    "mpt": ("MptForCausalLM", "MptConfig", {}),
    "mpt, clipped": (
        "MptForCausalLM",
        "MptConfig",
        {
            "n_heads": 6,
            "d_model": 18,
            "tie_word_embeddings": False,
            "attn_config": {"clip_qkv": 0.5, "softmax_scale": 0.3},
        },
    ),
    "classes mpt": ("MptForSequenceClassification", "MptConfig", _CLASSES),
    "t5": ("T5ForConditionalGeneration", "T5Config", {}),
    "t5 deeper decoder": ("T5ForConditionalGeneration", "T5Config", {"num_decoder_layers": 3}),
    "t5 1.1": (
        "T5ForConditionalGeneration",
        "T5Config",
        {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "d_kv": 6},
    ),
}  # fmt: skip

_BASES = {
    "GPT2Config": _GPT2,
    "T5Config": _T5,
    "MT5Config": _T5,
    "UMT5Config": _T5,
    **dict.fromkeys(
        (
            *("BartConfig", "MBartConfig", "MarianConfig", "PegasusConfig", "BlenderbotConfig"),
            *("PLBartConfig", "M2M100Config"),
        ),
        _BART,
    ),
    "BloomConfig": _BLOOM,
    "CTRLConfig": _GPT2 | {"dff": 24},
    "CodeGenConfig": _GPT2,
    "DistilBertConfig": {},
    "FalconConfig": _FALCON,
    "GPTBigCodeConfig": _GPT2,
    "GPTJConfig": _GPT2,
    "GPTNeoConfig": _GPT_NEO,
    "MptConfig": _MPT,
    "OPTConfig": _OPT,
    "OpenAIGPTConfig": _GPT2,
    "XGLMConfig": {
        "vocab_size": VOCAB,
        "d_model": 16,
        "num_layers": 2,
        "attention_heads": 4,
        "ffn_dim": 24,
        "max_position_embeddings": LENGTH,
        "init_std": 0.2,
    },
}
#: Cases whose models read one text and write another.
PAIRS = [
    case
    for case, (model_class, _, _) in CASES.items()
    if model_class.endswith(("ForConditionalGeneration", "MTModel"))
]
#: Those that compute in float64 throughout when told to; the others norm or turn in float32.
EXACT = {
    *("gpt2", "gpt2 untied, wide, relu", "classes gpt2"),
    *("opt", "opt, narrow vectors, norms after the layers", "classes opt"),
    *("bert", "bert without head", "bert with all heads", "classes bert"),
    *(
        case
        for case in CASES
        if case.startswith("encoder")
        and not case.startswith(("encoder deberta", "encoder modernbert", "encoder eurobert"))
    ),
    *(case for case in PAIRS if "t5" not in case and "m2m" not in case),
}


def kernel_of(case: str) -> str:
    """How theirs computes attention.

    Eager Falcon of 5.24 adds ALiBi's penalty twice. Eager OPT computes each softmax in float32, so
    the gradients of its keys' biases are rounding alone.
    """
    fused = case == "falcon with ALiBi" or case.startswith(("opt", "classes opt"))
    return "sdpa" if fused else "eager"


def reference(case: str) -> Any:
    """The model of a case, its weights wide enough that nothing is nearly flat."""
    transformers = pytest.importorskip("transformers")
    quiet(transformers)
    model_class, config_class, extra = CASES[case]
    settings = getattr(transformers, config_class)(**{**_BASES.get(config_class, _COMMON), **extra})
    settings._attn_implementation = kernel_of(case)
    settings._experts_implementation = "eager"
    torch.manual_seed(0)
    model = getattr(transformers, model_class)(settings).eval()
    if case == "t5 1.1":  # newer versions tie all heads, unless a file holds two matrices
        model.lm_head.weight = torch.nn.Parameter(torch.randn(VOCAB, 16))
        model.config.tie_word_embeddings = False
    with torch.no_grad():
        constants = [buffer for name, buffer in model.named_buffers() if "correction" in name]
        for parameter in (*model.parameters(), *constants):
            if parameter.ndim == 1:  # norms and biases start at ones and zeros
                parameter.add_(0.2 * torch.randn_like(parameter))
        for name, constant in model.named_buffers():
            if name == "final_logits_bias":
                constant.add_(torch.randn_like(constant))
    return model


def quiet(transformers: Any) -> None:
    """No progress bars and no advice: warnings are errors here, theirs are not ours to repair."""
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()


def both(case: str, folder: Path) -> tuple[Any, Transformer, Published]:
    """Theirs, ours from the directory that theirs was saved to, and how ours was read."""
    reference_model = reference(case)
    reference_model.save_pretrained(folder)
    published = open_published(folder)
    return reference_model, build_published(published, torch.device("cpu")), published


def token_ids(rows: int, columns: int) -> Tensor:
    """Ids above 2: 0 to 2 may be padding, begin and end, and have no gradient there."""
    return torch.randint(3, VOCAB, (rows, columns), generator=torch.Generator().manual_seed(1))


def says(case: str) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    """How theirs and ours are asked: (model, ids, padding) to logits, or to hidden states."""
    if case in PAIRS:
        return _their_pair, _our_pair
    if case.endswith("without head") or case == "encoder distilbert, sines":
        return _their_states, _our_states
    if case.startswith("classes"):
        return _their_classes, _our_logits
    return _their_logits, _our_logits


def _attention_mask(padding: Tensor | None) -> Tensor | None:
    return None if padding is None else padding.long()


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """XGLM of 5.24 makes its least score in the default type, which must hold it."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _their_logits(model: Any, ids: Tensor, padding: Tensor | None = None) -> Tensor:
    with _default_dtype(model.dtype):
        outputs = model(ids, attention_mask=_attention_mask(padding))
    return outputs.prediction_logits if hasattr(outputs, "prediction_logits") else outputs.logits


def _their_classes(model: Any, ids: Tensor, padding: Tensor | None = None) -> Tensor:
    if padding is not None:  # they know by the id, and not by the mask, which token is the last
        ids = ids.masked_fill(~padding, 0)
    return model(ids, attention_mask=_attention_mask(padding)).logits


def _our_logits(model: Transformer, ids: Tensor, padding: Tensor | None = None) -> Tensor:
    return model(ids, padding=padding)


def _their_states(model: Any, ids: Tensor, padding: Tensor | None = None) -> Tensor:
    model = getattr(model, "electra", model)  # its discriminator reads the states
    outputs = model(ids, attention_mask=_attention_mask(padding))
    pooled: Tensor | None = getattr(outputs, "pooler_output", None)
    states = outputs.last_hidden_state
    return states if pooled is None else torch.cat((states, pooled[:, None]), dim=1)


def _our_states(model: Transformer, ids: Tensor, padding: Tensor | None = None) -> Tensor:
    states = model.hidden_states(ids, padding=padding)
    if model.pooler is None:
        return states
    return torch.cat((states, torch.tanh(model.pooler(states[:, :1]))), dim=1)


def _their_pair(model: Any, ids: Tensor, padding: Tensor | None = None) -> Tensor:
    decoder_ids = ids.flip(0)[:, :20]
    mask = _attention_mask(padding)
    return model(input_ids=ids, attention_mask=mask, decoder_input_ids=decoder_ids).logits


def _our_pair(model: Transformer, ids: Tensor, padding: Tensor | None = None) -> Tensor:
    encoded = model.encode(ids, padding=padding)
    return model(ids.flip(0)[:, :20], encoded=encoded)
