"""GPT-NeoX and Pythia: attention and feed-forward layers in parallel, partial rotary positions.

One matrix has queries, keys and values, head by head.

Source: Black et al. 2022, "GPT-NeoX-20B"; Biderman et al. 2023, "Pythia".
"""

from __future__ import annotations

from pellucid import config
from pellucid.checkpoints.huggingface.attributes import Read, Rules, Table
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
    rotary,
    std_of,
)
from pellucid.checkpoints.huggingface.names import Names, Source, linear, norm
from pellucid.checkpoints.huggingface.rotary import ROTARY_RULES, describe_rotary, read_rotary

_RULES: Rules = {
    "vocab_size": Read(int),
    "hidden_size": Read(int),
    "num_hidden_layers": Read(int),
    "num_attention_heads": Read(int),
    "intermediate_size": Read(int),
    "hidden_act": Read(str, "gelu"),
    "attention_dropout": Read(float, 0.0),
    "hidden_dropout": Read(float, 0.0),
    "max_position_embeddings": Read(int, 2048),
    "initializer_range": Read(float, 0.02),
    "layer_norm_eps": Read(float, 1e-5),
    "tie_word_embeddings": Read(bool, False),
    "use_parallel_residual": Read(bool, True),
    "attention_bias": Read(bool, True),
    "rotary_pct": Read(float, 0.25),
    "partial_rotary_factor": Read(float, None),
    "rotary_emb_base": Read(float, 10_000.0),
    **ROTARY_RULES,
}

_BLOCK, _LAYER = "decoder.blocks.{n}", "gpt_neox.layers.{n}"
_FUSED = f"{_LAYER}.attention.query_key_value"
_NAMES: Names = {
    "token_embedding.weight": Source("gpt_neox.embed_in.weight"),
    "head.weight": Source("embed_out.weight"),
    **dict(norm("decoder.final_norm", "gpt_neox.final_layer_norm")),
    **dict(norm(f"{_BLOCK}.attention_norm", f"{_LAYER}.input_layernorm")),
    **dict(norm(f"{_BLOCK}.feed_forward_norm", f"{_LAYER}.post_attention_layernorm")),
    **dict(linear(f"{_BLOCK}.attention.query", _FUSED, third=0, by_head=True)),
    **dict(linear(f"{_BLOCK}.attention.key", _FUSED, third=1, by_head=True)),
    **dict(linear(f"{_BLOCK}.attention.value", _FUSED, third=2, by_head=True)),
    **dict(linear(f"{_BLOCK}.attention.output", f"{_LAYER}.attention.dense")),
    **dict(linear(f"{_BLOCK}.feed_forward.up", f"{_LAYER}.mlp.dense_h_to_4h")),
    **dict(linear(f"{_BLOCK}.feed_forward.down", f"{_LAYER}.mlp.dense_4h_to_h")),
}


def _read(attributes: Table, stored: DirectoryContents) -> config.Transformer:
    n_heads: int = attributes["num_attention_heads"]
    d_head = attributes["hidden_size"] // n_heads
    bias: bool = attributes["attention_bias"]
    share = attributes["partial_rotary_factor"]
    return config.Transformer(
        vocab_size=attributes["vocab_size"],
        context_length=attributes["max_position_embeddings"],
        d_model=attributes["hidden_size"],
        embedding=config.Embedding(tied=attributes["tie_word_embeddings"], scaled=False),
        decoder=config.Stack(
            n_layers=attributes["num_hidden_layers"],
            positions=read_rotary(
                attributes,
                d_head=d_head,
                base=attributes["rotary_emb_base"],
                share=attributes["rotary_pct"] if share is None else share,
            ),
            attention=config.MultiHead(
                n_heads=n_heads,
                n_kv_heads=n_heads,
                d_head=d_head,
                qkv_bias=bias,
                out_bias=bias,
                qk_norm=None,
                dropout=attributes["attention_dropout"],
            ),
            feed_forward=config.MLP(
                d_ff=attributes["intermediate_size"],
                activation=activation(attributes["hidden_act"], "hidden_act"),
                bias=True,
            ),
            norm=config.LayerNorm(eps=attributes["layer_norm_eps"], bias=True),
            residual=config.Parallel() if attributes["use_parallel_residual"] else config.PreNorm(),
            final_norm=True,
            dropout=attributes["hidden_dropout"],
        ),
        initialisation=normal_start(attributes["initializer_range"]),
    )


def _describe(model: config.Transformer) -> Table:
    stack = lone_decoder(model)
    attention, positions = multi_head(stack), rotary(stack)
    n_rotated = attention.d_head if positions.n_features is None else positions.n_features
    rotary_keys = describe_rotary(positions)
    return {
        "vocab_size": model.rows,
        "hidden_size": model.d_model,
        "num_hidden_layers": stack.n_layers,
        "num_attention_heads": attention.n_heads,
        "intermediate_size": feed_forward(stack).d_ff,
        "hidden_act": WRITTEN_ACTIVATIONS[feed_forward(stack).activation],
        "attention_dropout": attention.dropout,
        "hidden_dropout": stack.dropout,
        "max_position_embeddings": model.context_length,
        "initializer_range": std_of(model),
        "layer_norm_eps": stack.norm.eps,
        "tie_word_embeddings": model.embedding.tied,
        "use_parallel_residual": isinstance(stack.residual, config.Parallel),
        "attention_bias": attention.qkv_bias,
        "rotary_pct": n_rotated / attention.d_head,
        "rotary_emb_base": rotary_keys["rope_theta"],
        "rope_scaling": rotary_keys["rope_scaling"],
    }


GPT_NEOX = with_score(
    Family(
        model_type="gpt_neox",
        architectures=("GPTNeoXForCausalLM",),
        rules=_RULES,
        names=_NAMES,
        read=_read,
        describe=_describe,
        prefix="gpt_neox.",
        ignored_tensors={
            r".*\.attention\.(bias|masked_bias)": "the causal mask",
            r".*rotary_emb\.inv_freq": "computed from the config",
        },
    ),
    "GPTNeoX",
)
