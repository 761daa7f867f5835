"""Families of models of transformers, each tiny and with random weights.

Comes in: a name and a task. Goes out: a model. It does not know how it is trained.

Thresholds may be tuned on the families of one split; the others are held out.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

import torch
from torch import nn

from benchmarks.diagnosis.elsewhere.texts import BOS, EOS, PAD, VOCAB

Split = Literal["tune", "test"]
Kind = Literal["decoder", "encoder", "pair"]
#: The tasks of a model for sequences, whose outputs are classes or one reward.
CLASSIFIED = ("classify", "reward")
_WIDTH, _LAYERS, _HEADS = 64, 2, 4


@dataclass(frozen=True, kw_only=True, eq=False)
class Family:
    """A `model_type` of transformers and the numbers of its config."""

    name: str
    split: Split
    kind: Kind = "decoder"
    numbers: dict[str, Any] = field(default_factory=dict[str, Any])
    experts: bool = False
    attends: bool = True

    @property
    def dropouts(self) -> tuple[str, ...]:
        """The names of its config's rates of dropout."""
        from transformers import AutoConfig

        config = AutoConfig.for_model(self.name).to_dict()
        return tuple(
            key
            for key, value in config.items()
            if ("dropout" in key or "pdrop" in key) and isinstance(value, int | float)
        )


_LLAMA = {
    "hidden_size": _WIDTH,
    "intermediate_size": 2 * _WIDTH,
    "num_hidden_layers": _LAYERS,
    "num_attention_heads": _HEADS,
    "num_key_value_heads": 2,
}
_BERT = {
    "hidden_size": _WIDTH,
    "intermediate_size": 4 * _WIDTH,
    "num_hidden_layers": _LAYERS,
    "num_attention_heads": _HEADS,
    "max_position_embeddings": 72,
}
_EXPERTS = {"num_experts_per_tok": 2, "output_router_logits": True}


def _family(name: str, split: Split, /, **fields: Any) -> Family:
    return Family(name=name, split=split, **fields)


_LISTED = (
    _family(
        "gpt2",
        "tune",
        numbers={"n_embd": _WIDTH, "n_layer": _LAYERS, "n_head": _HEADS, "n_positions": 64},
    ),
    _family("llama", "tune", numbers=_LLAMA),
    _family("gpt_neox", "tune", numbers={**_LLAMA, "rotary_pct": 0.5}),
    _family(
        "opt",
        "tune",
        numbers={
            "hidden_size": _WIDTH,
            "word_embed_proj_dim": _WIDTH,
            "ffn_dim": 4 * _WIDTH,
            "num_hidden_layers": _LAYERS,
            "num_attention_heads": _HEADS,
            "max_position_embeddings": 64,
        },
    ),
    _family("bert", "tune", kind="encoder", numbers=_BERT),
    _family(
        "distilbert",
        "tune",
        kind="encoder",
        numbers={
            "dim": _WIDTH,
            "hidden_dim": 4 * _WIDTH,
            "n_layers": _LAYERS,
            "n_heads": _HEADS,
            "max_position_embeddings": 64,
        },
    ),
    _family(
        "t5",
        "tune",
        kind="pair",
        numbers={
            "d_model": _WIDTH,
            "d_kv": 16,
            "d_ff": 2 * _WIDTH,
            "num_layers": _LAYERS,
            "num_heads": _HEADS,
            "decoder_start_token_id": PAD,
        },
    ),
    _family(
        "mixtral",
        "tune",
        experts=True,
        numbers={**_LLAMA, "num_local_experts": 4, **_EXPERTS},
    ),
    _family(
        "mamba",
        "tune",
        attends=False,
        numbers={"hidden_size": 48, "num_hidden_layers": 1, "state_size": 8},
    ),
    _family("qwen3", "test", numbers={**_LLAMA, "head_dim": 16}),
    _family(
        "gemma2",
        "test",
        numbers={**_LLAMA, "head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 64},
    ),
    _family("phi", "test", numbers=_LLAMA | {"num_key_value_heads": _HEADS}),
    _family("bloom", "test", numbers={"hidden_size": _WIDTH, "n_layer": _LAYERS, "n_head": _HEADS}),
    _family("roberta", "test", kind="encoder", numbers=_BERT),
    _family("electra", "test", kind="encoder", numbers=_BERT | {"embedding_size": 32}),
    _family(
        "deberta-v2",
        "test",
        kind="encoder",
        numbers=_BERT | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    ),
    _family(
        "bart",
        "test",
        kind="pair",
        numbers={
            "d_model": _WIDTH,
            "encoder_layers": _LAYERS,
            "decoder_layers": _LAYERS,
            "encoder_attention_heads": _HEADS,
            "decoder_attention_heads": _HEADS,
            "encoder_ffn_dim": 2 * _WIDTH,
            "decoder_ffn_dim": 2 * _WIDTH,
            "max_position_embeddings": 64,
            "decoder_start_token_id": EOS,
            "forced_eos_token_id": None,
        },
    ),
    _family(
        "qwen2_moe",
        "test",
        experts=True,
        numbers={
            **_LLAMA,
            **_EXPERTS,
            "num_experts": 4,
            "moe_intermediate_size": _WIDTH,
            "shared_expert_intermediate_size": _WIDTH,
        },
    ),
    _family(
        "mamba2",
        "test",
        attends=False,
        numbers={
            "hidden_size": 48,
            "num_hidden_layers": 2,
            "state_size": 16,
            "num_heads": 6,
            "head_dim": 16,
            "n_groups": 1,
            "chunk_size": 16,
        },
    ),
)
FAMILIES: dict[str, Family] = {family.name: family for family in _LISTED}


def build(family: Family, task: str, seed: int, **changes: Any) -> nn.Module:
    """The model of a family for a task, with its own first weights; `changes` go to its config."""
    import transformers as hf

    numbers = {
        "vocab_size": VOCAB,
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        **family.numbers,
        **changes,
    }
    if task in CLASSIFIED:
        numbers["num_labels"] = 2 if task == "classify" else 1
        auto: Any = hf.AutoModelForSequenceClassification
    else:
        auto = {
            "decoder": hf.AutoModelForCausalLM,
            "encoder": hf.AutoModelForMaskedLM,
            "pair": hf.AutoModelForSeq2SeqLM,
        }[family.kind]
    torch.manual_seed(seed)
    return auto.from_config(hf.AutoConfig.for_model(family.name, **numbers))


@cache
def takes_positions(family: Family) -> bool:
    """Whether its models take the positions of tokens as an argument."""
    model = build(family, "lm", 0)
    return "position_ids" in inspect.signature(model.forward).parameters
