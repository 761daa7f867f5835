"""CTRL: sinusoids, scaled embeddings, norms before each layer, and a bias of the logits.

Source: Keskar et al. 2019, "CTRL: A Conditional Transformer Language Model for Controllable
Generation".
"""

from __future__ import annotations

from pellucid.checkpoints.huggingface.classes import classes_row, classification_head
from pellucid.checkpoints.huggingface.families.decoders import (
    ATTENTION,
    BLOCK,
    FEED,
    dropout_row,
    initial_std,
    skeleton,
)
from pellucid.checkpoints.huggingface.family import NO_HEAD, Family
from pellucid.checkpoints.huggingface.mapping import (
    computed,
    depth,
    fixed,
    flag,
    ignored,
    integer,
    quotient,
)
from pellucid.checkpoints.huggingface.names import Source, linear, norm

_LAYER = "transformer.h.{n}"
_HEADS = f"{_LAYER}.multi_head_attention"

CTRL = Family(
    model_type="ctrl",
    heads={
        "CTRLLMHeadModel": {"kind": "LanguageHead", "bias": True},
        "CTRLModel": NO_HEAD,
        "CTRLForSequenceClassification": classification_head("last", bias=False),
    },
    skeleton=skeleton(
        attention={"qkv_bias": True, "out_bias": True},
        feed_forward={"kind": "MLP", "activation": "relu", "bias": True},
        norm={"kind": "LayerNorm", "eps": 1e-6, "bias": True},
        positions={"kind": "Sinusoidal", "base": 1e4, "pairing": "half_split"},
        embedding={"kind": "Embedding", "scaled": True},
    ),
    rows=(
        integer("vocab_size", "vocab_size", default=246534),
        integer("n_positions", "context_length", default=256),
        ignored("repeats n_positions", "n_ctx"),
        integer("n_embd", "d_model", default=1280),
        integer("dff", f"{FEED}.d_ff", default=8192),
        depth("n_layer", "decoder", default=48),
        integer("n_head", f"{ATTENTION}.n_heads", f"{ATTENTION}.n_kv_heads", default=16),
        computed(quotient("n_embd", "n_head").value, f"{ATTENTION}.d_head"),
        fixed("layer_norm_epsilon", 1e-6),
        dropout_row("resid_pdrop", "embd_pdrop", default=0.1),
        initial_std(),
        flag("tie_word_embeddings", "embedding.tied", default=True),
        ignored("nothing reads it", "attn_pdrop", "from_tf"),
        ignored(
            "for the heads of other tasks",
            *("summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels"),
            "summary_first_dropout",
        ),
        classes_row(),
    ),
    names={
        "token_embedding.weight": Source("transformer.w.weight"),
        "head.weight": Source("lm_head.weight"),
        "head_bias": Source("lm_head.bias"),
        **dict(linear("classifier", "classifier")),
        **dict(norm("decoder.final_norm", "transformer.layernorm")),
        **dict(norm(f"{BLOCK}.attention_norm", f"{_LAYER}.layernorm1")),
        **dict(norm(f"{BLOCK}.feed_forward_norm", f"{_LAYER}.layernorm2")),
        **dict(linear(f"{BLOCK}.attention.query", f"{_HEADS}.Wq")),
        **dict(linear(f"{BLOCK}.attention.key", f"{_HEADS}.Wk")),
        **dict(linear(f"{BLOCK}.attention.value", f"{_HEADS}.Wv")),
        **dict(linear(f"{BLOCK}.attention.output", f"{_HEADS}.dense")),
        **dict(linear(f"{BLOCK}.feed_forward.up", f"{_LAYER}.ffn.0")),
        **dict(linear(f"{BLOCK}.feed_forward.down", f"{_LAYER}.ffn.2")),
    },
    prefix="transformer.",
)
