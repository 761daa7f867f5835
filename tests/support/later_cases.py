"""Tiny models of `transformers` of relatives of other families, one or more of each.

Comes in: nothing. Goes out: cases of `support.reference`.
"""

from __future__ import annotations

from typing import Any

_GROUPED: dict[str, Any] = {"num_key_value_heads": 2}
_CLASSES: dict[str, Any] = {**_GROUPED, "num_labels": 3, "pad_token_id": 0}
_ONE_BASE: dict[str, Any] = {"rope_parameters": {"rope_type": "default", "rope_theta": 300.0}}
_ALPHA: dict[str, Any] = {
    "rope_parameters": {"rope_type": "dynamic", "factor": 1.0, "alpha": 5.0, "rope_theta": 1e4}
}

_LABELS: dict[str, Any] = {"num_labels": 3}
#: The table of positions begins behind the padding id, which is 1.
_BEHIND_PADDING: dict[str, Any] = {"max_position_embeddings": 34}

LATER_CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "ministral": (
        "MinistralForCausalLM",
        "MinistralConfig",
        {
            **_GROUPED,
            "num_hidden_layers": 3,
            "head_dim": 4,
            "sliding_window": 5,
            "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
        },
    ),
    "ministral, a window in each layer": (
        "MinistralForCausalLM",
        "MinistralConfig",
        {**_GROUPED, "sliding_window": 5, "head_dim": 6, "tie_word_embeddings": True},
    ),
    "classes ministral": (
        "MinistralForSequenceClassification",
        "MinistralConfig",
        {
            **_CLASSES,
            "head_dim": 6,
            "sliding_window": 5,
            "layer_types": ["full_attention", "sliding_attention"],
        },
    ),
    "cwm": (
        "CwmForCausalLM",
        "CwmConfig",
        {**_GROUPED, **_ONE_BASE, "num_hidden_layers": 5, "head_dim": 6, "sliding_window": 5},
    ),
    "cwm, stretched": ("CwmForCausalLM", "CwmConfig", {**_GROUPED, "head_dim": 8}),
    "gpt_bigcode": ("GPTBigCodeForCausalLM", "GPTBigCodeConfig", {}),
    "gpt_bigcode, a key for each head": (
        "GPTBigCodeForCausalLM",
        "GPTBigCodeConfig",
        {
            "multi_query": False,
            "scale_attn_weights": False,
            "n_inner": 20,
            "activation_function": "gelu",
            "tie_word_embeddings": False,
        },
    ),
    "classes gpt_bigcode": (
        "GPTBigCodeForSequenceClassification",
        "GPTBigCodeConfig",
        {"num_labels": 3, "pad_token_id": 0},
    ),
    "openai-gpt": ("OpenAIGPTLMHeadModel", "OpenAIGPTConfig", {}),
    "openai-gpt, untied": (
        "OpenAIGPTLMHeadModel",
        "OpenAIGPTConfig",
        {"afn": "relu", "tie_word_embeddings": False},
    ),
    "classes openai-gpt": (
        "OpenAIGPTForSequenceClassification",
        "OpenAIGPTConfig",
        {"num_labels": 3, "pad_token_id": 0},
    ),
    "hunyuan": ("HunYuanDenseV1ForCausalLM", "HunYuanDenseV1Config", {**_GROUPED, "head_dim": 6}),
    "hunyuan, base stretched, biases": (
        "HunYuanDenseV1ForCausalLM",
        "HunYuanDenseV1Config",
        {**_GROUPED, **_ALPHA, "head_dim": 8, "attention_bias": True, "tie_word_embeddings": True},
    ),
    "classes hunyuan": (
        "HunYuanDenseV1ForSequenceClassification",
        "HunYuanDenseV1Config",
        {**_CLASSES, "head_dim": 4},
    ),
    "exaone": (
        "LlamaForCausalLM",
        "ExaoneConfig",
        {**_GROUPED, "rms_norm_eps": 1e-3, "hidden_act": "gelu"},
    ),
    "internlm3": (
        "LlamaForCausalLM",
        "InternLM3Config",
        {**_GROUPED, "head_dim": 6, "attention_bias": True, "mlp_bias": True},
    ),
    "jais2": ("Jais2ForCausalLM", "Jais2Config", _GROUPED),
    "jais2, biases in attention alone": (
        "Jais2ForCausalLM",
        "Jais2Config",
        {"mlp_bias": False, "head_dim": 6, "hidden_act": "gelu", "tie_word_embeddings": True},
    ),
    "vaultgemma": (
        "VaultGemmaForCausalLM",
        "VaultGemmaConfig",
        {**_GROUPED, "head_dim": 8, "sliding_window": 5, "query_pre_attn_scalar": 10},
    ),
    "vaultgemma, caps": (
        "VaultGemmaForCausalLM",
        "VaultGemmaConfig",
        {
            "num_key_value_heads": 4,
            "head_dim": 4,
            "attn_logit_softcapping": 2.0,
            "final_logit_softcapping": 3.0,
            "layer_types": ["full_attention", "sliding_attention"],
            "tie_word_embeddings": False,
        },
    ),
    "encoder eurobert": (
        "EuroBertForMaskedLM",
        "EuroBertConfig",
        {**_GROUPED, "pad_token_id": 0},
    ),
    "encoder eurobert, biases, tied": (
        "EuroBertForMaskedLM",
        "EuroBertConfig",
        {
            "pad_token_id": 0,
            "head_dim": 6,
            "attention_bias": True,
            "mlp_bias": True,
            "hidden_act": "gelu",
            "rms_norm_eps": 1e-3,
            "tie_word_embeddings": True,
        },
    ),
    "encoder eurobert, without head": (
        "EuroBertModel",
        "EuroBertConfig",
        {**_GROUPED, "pad_token_id": 0},
    ),
    "classes eurobert": (
        "EuroBertForSequenceClassification",
        "EuroBertConfig",
        {**_CLASSES, "classifier_pooling": "bos"},
    ),
    "classes eurobert, mean": (
        "EuroBertForSequenceClassification",
        "EuroBertConfig",
        {**_CLASSES, "classifier_pooling": "mean"},
    ),
    "encoder megatron-bert": ("MegatronBertForMaskedLM", "MegatronBertConfig", {}),
    "encoder megatron-bert, with all heads": (
        "MegatronBertForPreTraining",
        "MegatronBertConfig",
        {"hidden_act": "relu", "type_vocab_size": 3, "layer_norm_eps": 1e-3},
    ),
    "encoder megatron-bert, without head": ("MegatronBertModel", "MegatronBertConfig", {}),
    "classes megatron-bert": (
        "MegatronBertForSequenceClassification",
        "MegatronBertConfig",
        _LABELS,
    ),
    "encoder roberta-prelayernorm": (
        "RobertaPreLayerNormForMaskedLM",
        "RobertaPreLayerNormConfig",
        _BEHIND_PADDING,
    ),
    "encoder roberta-prelayernorm, without head": (
        "RobertaPreLayerNormModel",
        "RobertaPreLayerNormConfig",
        {**_BEHIND_PADDING, "layer_norm_eps": 1e-3, "hidden_act": "relu"},
    ),
    "classes roberta-prelayernorm": (
        "RobertaPreLayerNormForSequenceClassification",
        "RobertaPreLayerNormConfig",
        {**_BEHIND_PADDING, "num_labels": 3},
    ),
    "encoder data2vec-text": ("Data2VecTextForMaskedLM", "Data2VecTextConfig", _BEHIND_PADDING),
    "classes data2vec-text": (
        "Data2VecTextForSequenceClassification",
        "Data2VecTextConfig",
        {**_BEHIND_PADDING, "num_labels": 3},
    ),
    "encoder xlm-roberta-xl": ("XLMRobertaXLForMaskedLM", "XLMRobertaXLConfig", _BEHIND_PADDING),
    "encoder xlm-roberta-xl, untied, two kinds of text": (
        "XLMRobertaXLForMaskedLM",
        "XLMRobertaXLConfig",
        {**_BEHIND_PADDING, "type_vocab_size": 2, "tie_word_embeddings": False},
    ),
    "classes xlm-roberta-xl": (
        "XLMRobertaXLForSequenceClassification",
        "XLMRobertaXLConfig",
        {**_BEHIND_PADDING, "num_labels": 3},
    ),
    "umt5": ("UMT5ForConditionalGeneration", "UMT5Config", {}),
    "umt5, deeper decoder, plain": (
        "UMT5ForConditionalGeneration",
        "UMT5Config",
        {"num_decoder_layers": 3, "feed_forward_proj": "relu", "d_kv": 6},
    ),
    "plbart": ("PLBartForConditionalGeneration", "PLBartConfig", {}),
    "m2m_100": ("M2M100ForConditionalGeneration", "M2M100Config", {}),
    "m2m_100, uneven": (
        "M2M100ForConditionalGeneration",
        "M2M100Config",
        {
            "encoder_layers": 1,
            "decoder_layers": 3,
            "decoder_attention_heads": 8,
            "scale_embedding": False,
            "activation_function": "gelu",
        },
    ),
    "xglm": ("XGLMForCausalLM", "XGLMConfig", {}),
    "xglm, unscaled, untied": (
        "XGLMForCausalLM",
        "XGLMConfig",
        {
            "scale_embedding": False,
            "tie_word_embeddings": False,
            "activation_function": "relu",
        },
    ),
    "biogpt": ("BioGptForCausalLM", "BioGptConfig", {}),
    "biogpt, unscaled, untied": (
        "BioGptForCausalLM",
        "BioGptConfig",
        {"scale_embedding": False, "tie_word_embeddings": False, "hidden_act": "relu"},
    ),
    "classes biogpt": (
        "BioGptForSequenceClassification",
        "BioGptConfig",
        {"num_labels": 3, "pad_token_id": 0},
    ),
    "ctrl": ("CTRLLMHeadModel", "CTRLConfig", {}),
    "ctrl, untied": ("CTRLLMHeadModel", "CTRLConfig", {"tie_word_embeddings": False, "dff": 13}),
    "classes ctrl": (
        "CTRLForSequenceClassification",
        "CTRLConfig",
        {"num_labels": 3, "pad_token_id": 0},
    ),
}
