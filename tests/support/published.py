"""Small published directories of every family, written by us, so that they need no reference."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pellucid import config
from pellucid.checkpoints.huggingface import FAMILIES, write_published
from pellucid.checkpoints.huggingface.attributes import read_attributes
from pellucid.checkpoints.huggingface.mapping import DirectoryContents
from pellucid.model import Transformer, assemble
from pellucid.tokenizers import settings_for, train_bytes

VOCAB = 300
_WIDTHS: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 32,
}
_GPT2: dict[str, Any] = {"vocab_size": VOCAB, "n_embd": 16, "n_layer": 2, "n_head": 4}
_T5: dict[str, Any] = {
    "vocab_size": VOCAB,
    "d_model": 16,
    "d_kv": 4,
    "d_ff": 24,
    "num_layers": 2,
    "num_heads": 4,
    "is_encoder_decoder": True,
}
_EXPERTS: dict[str, Any] = {
    "moe_intermediate_size": 12,
    "num_experts": 4,
    "num_experts_per_tok": 2,
}
_DEEPSEEK: dict[str, Any] = {
    **_WIDTHS,
    "q_lora_rank": None,
    "kv_lora_rank": 8,
    "qk_nope_head_dim": 6,
    "qk_rope_head_dim": 4,
    "v_head_dim": 5,
    "moe_intermediate_size": 12,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "first_k_dense_replace": 1,
}
_BART: dict[str, Any] = {
    "vocab_size": VOCAB,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 32,
    "is_encoder_decoder": True,
}
#: The least that a config.json of each family says.
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "llama": {**_WIDTHS, "num_key_value_heads": 2},
    "gpt2": {**_GPT2, "n_positions": 32},
    "qwen2": {**_WIDTHS, "num_key_value_heads": 2},
    "qwen3": {**_WIDTHS, "num_key_value_heads": 2, "head_dim": 8},
    "mistral": {**_WIDTHS, "num_key_value_heads": 2, "sliding_window": 4},
    "gpt_neox": {**_WIDTHS, "rotary_pct": 0.5},
    "olmo2": _WIDTHS,
    "gemma2": {**_WIDTHS, "head_dim": 8, "sliding_window": 4},
    "bert": _WIDTHS,
    "t5": _T5,
    "mt5": {**_T5, "tie_word_embeddings": True},
    "umt5": _T5,
    **dict.fromkeys(("bart", "mbart", "marian", "pegasus", "blenderbot"), _BART),
    "roberta": {**_WIDTHS, "max_position_embeddings": 34},
    "xlm-roberta": {**_WIDTHS, "max_position_embeddings": 34},
    "camembert": {**_WIDTHS, "max_position_embeddings": 34},
    "distilbert": {
        "vocab_size": VOCAB,
        "dim": 16,
        "n_layers": 2,
        "n_heads": 4,
        "hidden_dim": 24,
        "max_position_embeddings": 32,
    },
    "electra": {**_WIDTHS, "embedding_size": 6},
    "albert": {**_WIDTHS, "embedding_size": 6, "num_hidden_groups": 2},
    "mpnet": {**_WIDTHS, "max_position_embeddings": 34},
    "deberta-v2": {
        **_WIDTHS,
        "relative_attention": True,
        "pos_att_type": ["c2p", "p2c"],
        "position_buckets": 8,
        "norm_rel_ebd": "layer_norm",
    },
    "modernbert": {**_WIDTHS, "local_attention": 4, "global_attn_every_n_layers": 2},
    "ernie": _WIDTHS,
    "bert-generation": _WIDTHS,
    "bloom": {
        "vocab_size": VOCAB,
        "hidden_size": 16,
        "n_layer": 2,
        "n_head": 4,
        "seq_length": 32,
    },
    "gpt_neo": {
        "vocab_size": VOCAB,
        "hidden_size": 16,
        "num_layers": 2,
        "num_heads": 4,
        "attention_types": [[["global", "local"], 1]],
        "window_size": 4,
        "max_position_embeddings": 32,
    },
    "opt": {
        **{key: value for key, value in _WIDTHS.items() if key != "intermediate_size"},
        "ffn_dim": 24,
    },
    "falcon": {key: value for key, value in _WIDTHS.items() if key != "intermediate_size"},
    "cohere": {**_WIDTHS, "num_key_value_heads": 2, "use_qk_norm": True},
    "mpt": {"vocab_size": VOCAB, "d_model": 16, "n_layers": 2, "n_heads": 4, "max_seq_len": 32},
    "gemma": {**_WIDTHS, "num_key_value_heads": 2, "head_dim": 8},
    "granite": {**_WIDTHS, "residual_multiplier": 0.5, "logits_scaling": 3.0},
    "phi": _WIDTHS,
    "phi3": {**_WIDTHS, "partial_rotary_factor": 0.5},
    "gptj": {**_GPT2, "n_positions": 32, "rotary_dim": 2},
    "codegen": {**_GPT2, "n_positions": 32, "rotary_dim": 2},
    "starcoder2": {**_WIDTHS, "num_key_value_heads": 2},
    "stablelm": {
        **_WIDTHS,
        "num_key_value_heads": 2,
        "partial_rotary_factor": 0.5,
        "qk_layernorm": True,
    },
    "nemotron": _WIDTHS,
    "olmo": _WIDTHS,
    "arcee": _WIDTHS,
    "helium": {**_WIDTHS, "head_dim": 4, "num_key_value_heads": 4},
    "ernie4_5": {**_WIDTHS, "use_bias": True, "head_dim": 8},
    "seed_oss": {
        **_WIDTHS,
        "num_key_value_heads": 4,
        "attention_bias": False,
        "attention_out_bias": True,
        "head_dim": 8,
    },
    "glm": {**_WIDTHS, "head_dim": 8},
    "glm4": {**_WIDTHS, "head_dim": 8},
    "gemma3_text": {
        **_WIDTHS,
        "head_dim": 8,
        "num_key_value_heads": 2,
        "sliding_window": 4,
        "sliding_window_pattern": 2,
    },
    "olmo3": {
        **_WIDTHS,
        "sliding_window": 4,
        "layer_types": ["sliding_attention", "full_attention"],
    },
    "mixtral": {**_WIDTHS, "num_key_value_heads": 2, "num_local_experts": 4},
    "qwen2_moe": {
        **_WIDTHS,
        **_EXPERTS,
        "num_key_value_heads": 2,
        "shared_expert_intermediate_size": 8,
    },
    "qwen3_moe": {**_WIDTHS, **_EXPERTS, "num_key_value_heads": 2, "head_dim": 8},
    "olmoe": {**_WIDTHS, "num_experts": 4, "num_experts_per_tok": 2},
    "glm4_moe": {
        **_WIDTHS,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "moe_intermediate_size": 12,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
    },
    "gpt_oss": {
        **_WIDTHS,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "sliding_window": 4,
    },
    "ernie4_5_moe": {
        **_WIDTHS,
        "num_key_value_heads": 2,
        "moe_intermediate_size": 12,
        "moe_num_experts": 4,
        "moe_k": 2,
        "use_bias": True,
    },
    "granitemoe": {
        **_WIDTHS,
        "num_key_value_heads": 2,
        "num_local_experts": 4,
        "residual_multiplier": 0.5,
    },
    "smollm3": {**_WIDTHS, "num_key_value_heads": 2, "no_rope_layer_interval": 2},
    "exaone4": {
        **_WIDTHS,
        "num_key_value_heads": 2,
        "sliding_window": 4,
        "sliding_window_pattern": 2,
    },
    "cohere2": {**_WIDTHS, "num_key_value_heads": 2, "sliding_window": 4},
    "ministral": {
        **_WIDTHS,
        "num_key_value_heads": 2,
        "sliding_window": 4,
        "layer_types": ["sliding_attention", "full_attention"],
    },
    "cwm": {
        **_WIDTHS,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "sliding_window": 4,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
    },
    "gpt_bigcode": {**_GPT2, "n_positions": 32},
    "dots1": {
        **_WIDTHS,
        "num_key_value_heads": 2,
        "moe_intermediate_size": 12,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "n_shared_experts": 2,
        "first_k_dense_replace": 1,
        "sliding_window": 4,
        "max_window_layers": 1,
    },
    "flex_olmo": {**_WIDTHS, "num_experts": 4, "num_experts_per_tok": 2},
    "hunyuan_v1_dense": {**_WIDTHS, "num_key_value_heads": 2, "head_dim": 8},
    "granitemoeshared": {
        **_WIDTHS,
        "num_key_value_heads": 2,
        "num_local_experts": 4,
        "shared_intermediate_size": 10,
    },
    "eurobert": {**_WIDTHS, "num_key_value_heads": 2},
    "megatron-bert": _WIDTHS,
    "roberta-prelayernorm": {**_WIDTHS, "max_position_embeddings": 34},
    "data2vec-text": {**_WIDTHS, "max_position_embeddings": 34},
    "xlm-roberta-xl": {**_WIDTHS, "max_position_embeddings": 34},
    "plbart": _BART,
    "m2m_100": _BART,
    "xglm": {
        "vocab_size": VOCAB,
        "d_model": 16,
        "num_layers": 2,
        "attention_heads": 4,
        "ffn_dim": 24,
        "max_position_embeddings": 32,
    },
    "biogpt": _WIDTHS,
    "ctrl": {**_GPT2, "dff": 24, "n_positions": 32},
    "openai-gpt": {**_GPT2, "n_positions": 32},
    "exaone": {**_WIDTHS, "num_key_value_heads": 2},
    "jais2": {**_WIDTHS, "attention_bias": False, "head_dim": 8},
    "vaultgemma": {**_WIDTHS, "num_key_value_heads": 2, "head_dim": 8, "sliding_window": 4},
    "internlm3": {**_WIDTHS, "num_key_value_heads": 2, "head_dim": 8},
    "deepseek_v2": _DEEPSEEK,
    "deepseek_v3": {**_DEEPSEEK, "n_group": 2, "topk_group": 1, "q_lora_rank": 8},
}

#: Families whose models another one has in other tensors: pellucid writes them as that.
WRITTEN_AS = {
    "codegen": "gptj",
    "xlm-roberta": "roberta",
    "camembert": "roberta",
    "ernie": "bert",
    "bert-generation": "distilbert",
    "cwm": "ministral",
    "data2vec-text": "roberta",
    "plbart": "bart",
    "exaone": "llama",
    "internlm3": "llama",
}


def config_of(family: str, **extra: Any) -> config.Transformer:
    """The model that these attributes describe."""
    model_family = FAMILIES[family]
    table = read_attributes({**ATTRIBUTES[family], **extra}, model_family.rules, family=family)
    return model_family.read(table, DirectoryContents(model_family.architectures[0], frozenset()))


def write(folder: Path, family: str = "llama", **extra: Any) -> Transformer:
    """A directory of that family, with a tokenizer of bytes; gives back the model in it."""
    model_config = config_of(family, **extra)
    model = assemble(model_config, seed=3).eval()
    folder.mkdir(parents=True)
    words = train_bytes()
    ends = {"bos_token_id": words.begin_id, "eos_token_id": words.end_id}
    written_as = write_published(folder, model_config, model.state_dict(), ends)
    assert written_as == WRITTEN_AS.get(family, family)
    words.save(folder / "tokenizer.json")
    settings = settings_for(words.roles(), context_length=model_config.context_length)
    (folder / "tokenizer_config.json").write_text(settings)
    return model


def change(folder: Path, **attributes: Any) -> None:
    """Say something else in config.json."""
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **attributes}))


def retensor(folder: Path, edit: Callable[[dict[str, Tensor]], None]) -> None:
    """Write the weights again, edited."""
    from safetensors.torch import load_file, save_file

    file = folder / "model.safetensors"
    tensors = {name: tensor.clone() for name, tensor in load_file(file).items()}
    edit(tensors)
    save_file(tensors, file)


def shard(folder: Path) -> None:
    """Spread the weights over two files and an index."""
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    file_of_tensor = {
        name: f"model-0000{1 + index % 2}-of-00002.safetensors"
        for index, name in enumerate(tensors)
    }
    for file in set(file_of_tensor.values()):
        part = {name: tensor for name, tensor in tensors.items() if file_of_tensor[name] == file}
        save_file(part, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": file_of_tensor}))


def ids(columns: int) -> Tensor:
    """A row of token ids."""
    return torch.arange(3, 3 + columns)[None]
