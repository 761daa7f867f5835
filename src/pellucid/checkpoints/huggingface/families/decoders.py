"""What decoders with rotary positions, RMSNorm and gated feed-forward share: names and attributes.

Llama set the names; Qwen, Mistral, OLMo 2 and Gemma kept them. Comes in: attributes. Goes out:
parts of a config, and back. It does not know which family asks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pellucid import config
from pellucid.checkpoints.huggingface.attributes import Only, Read, Rules, Table
from pellucid.checkpoints.huggingface.family import (
    WRITTEN_ACTIVATIONS,
    activation,
    alternating,
    drawn,
    lone_decoder,
    multi_head,
    rotary,
    std_of,
)
from pellucid.checkpoints.huggingface.names import Names, Source, linear, norm
from pellucid.checkpoints.huggingface.rotary import ROTARY_RULES, describe_rotary, read_rotary
from pellucid.errors import CheckpointError

_OURS, _THEIRS = "decoder.blocks.{n}", "model.layers.{n}"

NAMES: Names = {
    "token_embedding.weight": Source("model.embed_tokens.weight"),
    "head.weight": Source("lm_head.weight"),
    **dict(norm("decoder.final_norm", "model.norm")),
    **dict(norm(f"{_OURS}.attention_norm", f"{_THEIRS}.input_layernorm")),
    **dict(norm(f"{_OURS}.feed_forward_norm", f"{_THEIRS}.post_attention_layernorm")),
    **dict(norm(f"{_OURS}.attention.query_norm", f"{_THEIRS}.self_attn.q_norm")),
    **dict(norm(f"{_OURS}.attention.key_norm", f"{_THEIRS}.self_attn.k_norm")),
    **dict(linear(f"{_OURS}.attention.query", f"{_THEIRS}.self_attn.q_proj")),
    **dict(linear(f"{_OURS}.attention.key", f"{_THEIRS}.self_attn.k_proj")),
    **dict(linear(f"{_OURS}.attention.value", f"{_THEIRS}.self_attn.v_proj")),
    **dict(linear(f"{_OURS}.attention.output", f"{_THEIRS}.self_attn.o_proj")),
    **dict(linear(f"{_OURS}.feed_forward.gate", f"{_THEIRS}.mlp.gate_proj")),
    **dict(linear(f"{_OURS}.feed_forward.up", f"{_THEIRS}.mlp.up_proj")),
    **dict(linear(f"{_OURS}.feed_forward.down", f"{_THEIRS}.mlp.down_proj")),
}

LEFT_OUT = {r".*\.rotary_emb\.inv_freq": "computed from the config"}

RULES: Rules = {
    "vocab_size": Read(int),
    "hidden_size": Read(int),
    "intermediate_size": Read(int),
    "num_hidden_layers": Read(int),
    "num_attention_heads": Read(int),
    "num_key_value_heads": Read(int, None),
    "head_dim": Read(int, None),
    "hidden_act": Read(str, "silu"),
    "max_position_embeddings": Read(int),
    "initializer_range": Read(float, 0.02),
    "rms_norm_eps": Read(float, 1e-6),
    "tie_word_embeddings": Read(bool, False),
    "attention_dropout": Read(float, 0.0),
    **ROTARY_RULES,
}
#: Sliding windows, of families that have them in some layers.
WINDOW_RULES: Rules = {
    "sliding_window": Read(int, None),
    "layer_types": Read(list, None),
}
ONE_RANK = {"pretraining_tp": Only(1)}


def read_attention(attributes: Table, *, qkv_bias: bool, out_bias: bool) -> config.MultiHead:
    """Attention without what only some families have."""
    n_heads: int = attributes["num_attention_heads"]
    d_head: int | None = attributes["head_dim"]
    n_kv_heads: int | None = attributes["num_key_value_heads"]
    return config.MultiHead(
        n_heads=n_heads,
        n_kv_heads=n_heads if n_kv_heads is None else n_kv_heads,
        d_head=attributes["hidden_size"] // n_heads if d_head is None else d_head,
        qkv_bias=qkv_bias,
        out_bias=out_bias,
        qk_norm=None,
        dropout=attributes["attention_dropout"],
    )


def read_layers(
    attributes: Table, full: config.MultiHead, default: Callable[[int], bool]
) -> config.Attention:
    """Which layers see a window only: those that `layer_types` names, or `default` of their number.

    Raises:
        CheckpointError: a type that is not handled, or not one for each layer.
    """
    n_layers: int = attributes["num_hidden_layers"]
    kinds = {"full_attention": full}
    if attributes["sliding_window"] is not None:
        kinds["sliding_attention"] = replace(full, window=attributes["sliding_window"])
    types = attributes["layer_types"]
    if types is None:
        types = ["sliding_attention" if default(i) else "full_attention" for i in range(n_layers)]
    if len(types) != n_layers:
        raise CheckpointError(
            f"config.json: layer_types has {len(types)} entries for {n_layers} layers"
        )
    for kind in types:
        if kind not in kinds:
            raise CheckpointError(
                f"config.json: layer_types names {kind!r}, which is not handled; those that are: "
                f"{', '.join(kinds)}"
            )
    return alternating(tuple(kinds[kind] for kind in types))


def read_decoder(
    attributes: Table,
    attention: config.Attention,
    *,
    norm: config.Norm,
    residual: config.Residual,
    feed_forward: config.FeedForward,
) -> config.Transformer:
    """The whole model, once its parts are known."""
    first = attention.layers[0] if isinstance(attention, config.Alternating) else attention
    return config.Transformer(
        vocab_size=attributes["vocab_size"],
        context_length=attributes["max_position_embeddings"],
        d_model=attributes["hidden_size"],
        embedding=config.Embedding(tied=attributes["tie_word_embeddings"], scaled=False),
        decoder=config.Stack(
            n_layers=attributes["num_hidden_layers"],
            positions=read_rotary(attributes, d_head=first.d_head),
            attention=attention,
            feed_forward=feed_forward,
            norm=norm,
            residual=residual,
            final_norm=True,
            dropout=0.0,
        ),
        initialisation=drawn(attributes["initializer_range"]),
    )


def gated(attributes: Table, *, bias: bool = False, act: str = "hidden_act") -> config.GatedMLP:
    """The feed-forward of all of them."""
    return config.GatedMLP(
        d_ff=attributes["intermediate_size"],
        activation=activation(attributes[act], act),
        bias=bias,
    )


def rms_norm(attributes: Table, *, unit_offset: bool = False) -> config.RMSNorm:
    """The norm of all of them."""
    return config.RMSNorm(eps=attributes["rms_norm_eps"], unit_offset=unit_offset)


def describe_decoder(model: config.Transformer, *, act: str = "hidden_act") -> Table:
    """The attributes of `RULES`.

    Raises:
        Unfit: it is not a decoder with rotary positions and multi-head attention.
    """
    stack = lone_decoder(model)
    attention = multi_head(stack)
    return {
        "vocab_size": model.rows,
        "hidden_size": model.d_model,
        "intermediate_size": stack.feed_forward.d_ff,
        "num_hidden_layers": stack.n_layers,
        "num_attention_heads": attention.n_heads,
        "num_key_value_heads": attention.n_kv_heads,
        "head_dim": attention.d_head,
        act: WRITTEN_ACTIVATIONS[stack.feed_forward.activation],
        "max_position_embeddings": model.context_length,
        "initializer_range": std_of(model),
        "rms_norm_eps": stack.norm.eps,
        "tie_word_embeddings": model.embedding.tied,
        "attention_dropout": attention.dropout,
        **describe_rotary(rotary(stack)),
    }


def describe_windows(model: config.Transformer) -> Table:
    """`sliding_window` and `layer_types`."""
    stack = lone_decoder(model)
    windows = [
        layer.window if isinstance(layer, config.MultiHead) else None for layer in stack.layers
    ]
    return {
        "sliding_window": next((w for w in windows if w is not None), None),
        "layer_types": [
            "full_attention" if window is None else "sliding_attention" for window in windows
        ],
    }
