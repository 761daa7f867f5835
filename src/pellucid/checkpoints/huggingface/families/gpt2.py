"""GPT-2: one matrix has queries, keys and values, and every matrix is stored as (in, out).

Source: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners".
"""

from __future__ import annotations

from pellucid import config
from pellucid.checkpoints.huggingface.attributes import FixedValue, Ignored, Read, Rules, Table
from pellucid.checkpoints.huggingface.families.decoders import with_score
from pellucid.checkpoints.huggingface.family import (
    WRITTEN_ACTIVATIONS,
    DirectoryContents,
    Family,
    activation,
    feed_forward,
    lone_decoder,
    multi_head,
    normal_start,
    std_of,
)
from pellucid.checkpoints.huggingface.names import Names, Source, linear, norm
from pellucid.errors import CheckpointError

_SUMMARY = Ignored("for the heads of other tasks")
_RULES: Rules = {
    "vocab_size": Read(int),
    "n_positions": Read(int, 1024),
    "n_ctx": Ignored("repeats n_positions"),
    "n_embd": Read(int),
    "n_layer": Read(int),
    "n_head": Read(int),
    "n_inner": Read(int, None),
    "activation_function": Read(str, "gelu_new"),
    "resid_pdrop": Read(float, 0.1),
    "embd_pdrop": Read(float, 0.1),
    "attn_pdrop": Read(float, 0.1),
    "layer_norm_epsilon": Read(float, 1e-5),
    "initializer_range": Read(float, 0.02),
    "tie_word_embeddings": Read(bool, True),
    "scale_attn_weights": FixedValue(True),
    "scale_attn_by_inverse_layer_idx": FixedValue(False),
    "reorder_and_upcast_attn": Ignored("the same products in another order"),
    **dict.fromkeys(
        (
            "summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels",
            "summary_first_dropout",
        ),
        _SUMMARY,
    ),
}  # fmt: skip

_BLOCK, _LAYER = "decoder.blocks.{n}", "transformer.h.{n}"
_FUSED = f"{_LAYER}.attn.c_attn"
_NAMES: Names = {
    "token_embedding.weight": Source("transformer.wte.weight"),
    "decoder.positions.embedding.weight": Source("transformer.wpe.weight"),
    "head.weight": Source("lm_head.weight"),
    **dict(norm("decoder.final_norm", "transformer.ln_f")),
    **dict(norm(f"{_BLOCK}.attention_norm", f"{_LAYER}.ln_1")),
    **dict(norm(f"{_BLOCK}.feed_forward_norm", f"{_LAYER}.ln_2")),
    **dict(linear(f"{_BLOCK}.attention.query", _FUSED, third=0, transposed=True)),
    **dict(linear(f"{_BLOCK}.attention.key", _FUSED, third=1, transposed=True)),
    **dict(linear(f"{_BLOCK}.attention.value", _FUSED, third=2, transposed=True)),
    **dict(linear(f"{_BLOCK}.attention.output", f"{_LAYER}.attn.c_proj", transposed=True)),
    **dict(linear(f"{_BLOCK}.feed_forward.up", f"{_LAYER}.mlp.c_fc", transposed=True)),
    **dict(linear(f"{_BLOCK}.feed_forward.down", f"{_LAYER}.mlp.c_proj", transposed=True)),
}


def _read(attributes: Table, stored: DirectoryContents) -> config.Transformer:
    d_model: int = attributes["n_embd"]
    n_heads: int = attributes["n_head"]
    if attributes["resid_pdrop"] != attributes["embd_pdrop"]:
        raise CheckpointError(
            f"config.json: resid_pdrop is {attributes['resid_pdrop']} and embd_pdrop "
            f"{attributes['embd_pdrop']}: a stack has one rate of dropout; make them equal"
        )
    return config.Transformer(
        vocab_size=attributes["vocab_size"],
        context_length=attributes["n_positions"],
        d_model=d_model,
        embedding=config.Embedding(tied=attributes["tie_word_embeddings"], scaled=False),
        decoder=config.Stack(
            n_layers=attributes["n_layer"],
            positions=config.Learned(),
            attention=config.MultiHead(
                n_heads=n_heads,
                n_kv_heads=n_heads,
                d_head=d_model // n_heads,
                qkv_bias=True,
                out_bias=True,
                qk_norm=None,
                dropout=attributes["attn_pdrop"],
            ),
            feed_forward=config.MLP(
                d_ff=4 * d_model if attributes["n_inner"] is None else attributes["n_inner"],
                activation=activation(attributes["activation_function"], "activation_function"),
                bias=True,
            ),
            norm=config.LayerNorm(eps=attributes["layer_norm_epsilon"], bias=True),
            residual=config.PreNorm(),
            final_norm=True,
            dropout=attributes["resid_pdrop"],
        ),
        initialisation=normal_start(attributes["initializer_range"], depth_scaled=True),
    )


def _describe(model: config.Transformer) -> Table:
    stack = lone_decoder(model)
    attention = multi_head(stack)
    act = feed_forward(stack).activation
    return {
        "vocab_size": model.rows,
        "n_positions": model.context_length,
        "n_embd": model.d_model,
        "n_layer": stack.n_layers,
        "n_head": attention.n_heads,
        "n_inner": feed_forward(stack).d_ff,
        "activation_function": "gelu_new" if act == "gelu_tanh" else WRITTEN_ACTIVATIONS[act],
        "resid_pdrop": stack.dropout,
        "embd_pdrop": stack.dropout,
        "attn_pdrop": attention.dropout,
        "layer_norm_epsilon": stack.norm.eps,
        "initializer_range": std_of(model),
        "tie_word_embeddings": model.embedding.tied,
    }


GPT2 = with_score(
    Family(
        model_type="gpt2",
        architectures=("GPT2LMHeadModel",),
        rules=_RULES,
        names=_NAMES,
        read=_read,
        describe=_describe,
        prefix="transformer.",
        ignored_tensors={r".*\.attn\.(bias|masked_bias)": "the causal mask"},
    ),
    "GPT2",
)
