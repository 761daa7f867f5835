"""GPT-2: one matrix has queries, keys and values, and every matrix is stored as (in, out).

Source: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners".
"""

from __future__ import annotations

from pellucid.checkpoints.huggingface.activations import activation
from pellucid.checkpoints.huggingface.attributes import Derived
from pellucid.checkpoints.huggingface.classes import classes_row, classification_head
from pellucid.checkpoints.huggingface.families.decoders import (
    ATTENTION,
    FEED,
    dropout_row,
    initial_std,
    initialisation,
    skeleton,
)
from pellucid.checkpoints.huggingface.family import LANGUAGE_HEAD, NO_HEAD, Family
from pellucid.checkpoints.huggingface.mapping import (
    Row,
    choice,
    computed,
    depth,
    flag,
    ignored,
    integer,
    number,
    quotient,
    training_number,
)
from pellucid.checkpoints.huggingface.names import Names, Source, fused, linear, norm

_ROWS: tuple[Row, ...] = (
    integer("vocab_size", "vocab_size"),
    integer("n_positions", "context_length", default=1024),
    ignored("repeats n_positions", "n_ctx"),
    integer("n_embd", "d_model"),
    depth("n_layer", "decoder"),
    integer("n_head", f"{ATTENTION}.n_heads", f"{ATTENTION}.n_kv_heads"),
    computed(quotient("n_embd", "n_head").value, f"{ATTENTION}.d_head"),
    integer(
        "n_inner", f"{FEED}.d_ff", default=Derived("4 * n_embd", lambda table: 4 * table["n_embd"])
    ),
    activation(
        "activation_function",
        f"{FEED}.activation",
        default="gelu_new",
        other_names={"gelu_tanh": "gelu_new"},
    ),
    dropout_row("resid_pdrop", "embd_pdrop", default=0.1),
    training_number("attn_pdrop", f"{ATTENTION}.dropout", default=0.1),
    number("layer_norm_epsilon", "decoder.norm.eps", default=1e-5),
    initial_std(),
    flag("tie_word_embeddings", "embedding.tied", default=True),
    choice("scale_attn_weights", {True: None, False: 1.0}, f"{ATTENTION}.scale", default=True),
    flag("scale_attn_by_inverse_layer_idx", f"{ATTENTION}.scale_by_layer", default=False),
    ignored("the same products in another order", "reorder_and_upcast_attn"),
    ignored(
        "for the heads of other tasks",
        *("summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels"),
        "summary_first_dropout",
    ),
    classes_row(),
)

_BLOCK, _LAYER = "decoder.blocks.{n}", "transformer.h.{n}"
_NAMES: Names = {
    "token_embedding.weight": Source("transformer.wte.weight"),
    "decoder.positions.embedding.weight": Source("transformer.wpe.weight"),
    "head.weight": Source("lm_head.weight"),
    **dict(linear("classifier", "score")),
    **dict(norm("decoder.final_norm", "transformer.ln_f")),
    **dict(norm(f"{_BLOCK}.attention_norm", f"{_LAYER}.ln_1")),
    **dict(norm(f"{_BLOCK}.feed_forward_norm", f"{_LAYER}.ln_2")),
    **dict(
        fused(
            f"{_BLOCK}.attention",
            ("query", "key", "value"),
            f"{_LAYER}.attn.c_attn",
            transposed=True,
        )
    ),
    **dict(linear(f"{_BLOCK}.attention.output", f"{_LAYER}.attn.c_proj", transposed=True)),
    **dict(linear(f"{_BLOCK}.feed_forward.up", f"{_LAYER}.mlp.c_fc", transposed=True)),
    **dict(linear(f"{_BLOCK}.feed_forward.down", f"{_LAYER}.mlp.c_proj", transposed=True)),
}

GPT2 = Family(
    model_type="gpt2",
    heads={
        "GPT2LMHeadModel": LANGUAGE_HEAD,
        "GPT2Model": NO_HEAD,
        "GPT2ForSequenceClassification": classification_head("last", bias=False),
    },
    skeleton=skeleton(
        attention={"qkv_bias": True, "out_bias": True},
        feed_forward={"kind": "MLP", "bias": True},
        norm={"kind": "LayerNorm", "bias": True},
        positions={"kind": "Learned"},
        initialisation=initialisation("depth_scaled"),
    ),
    rows=_ROWS,
    names=_NAMES,
    prefix="transformer.",
    ignored_tensors={r".*\.attn\.(bias|masked_bias)": "the causal mask"},
)
