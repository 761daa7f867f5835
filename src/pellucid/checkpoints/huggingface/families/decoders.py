"""The common part of decoders with rotary positions, RMSNorm and gated feed-forward layers.

Llama introduced their names and attributes; Mistral, OLMo 2, Qwen and Gemma use them too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pellucid import config
from pellucid.checkpoints.huggingface.attributes import FixedValue, Read, Rules, Table
from pellucid.checkpoints.huggingface.classes import with_classes
from pellucid.checkpoints.huggingface.family import (
    WRITTEN_ACTIVATIONS,
    DirectoryContents,
    Family,
    activation,
    alternating,
    feed_forward,
    lone_decoder,
    multi_head,
    normal_start,
    rotary,
    std_of,
)
from pellucid.checkpoints.huggingface.names import Names, Source, linear, norm
from pellucid.checkpoints.huggingface.rotary import ROTARY_RULES, describe_rotary, read_rotary
from pellucid.errors import CheckpointError

BLOCK, LAYER = "decoder.blocks.{n}", "model.layers.{n}"

NAMES: Names = {
    "token_embedding.weight": Source("model.embed_tokens.weight"),
    "head.weight": Source("lm_head.weight"),
    **dict(norm("decoder.final_norm", "model.norm")),
    **dict(norm(f"{BLOCK}.attention_norm", f"{LAYER}.input_layernorm")),
    **dict(norm(f"{BLOCK}.feed_forward_norm", f"{LAYER}.post_attention_layernorm")),
    **dict(norm(f"{BLOCK}.attention.query_norm", f"{LAYER}.self_attn.q_norm")),
    **dict(norm(f"{BLOCK}.attention.key_norm", f"{LAYER}.self_attn.k_norm")),
    **dict(linear(f"{BLOCK}.attention.query", f"{LAYER}.self_attn.q_proj")),
    **dict(linear(f"{BLOCK}.attention.key", f"{LAYER}.self_attn.k_proj")),
    **dict(linear(f"{BLOCK}.attention.value", f"{LAYER}.self_attn.v_proj")),
    **dict(linear(f"{BLOCK}.attention.output", f"{LAYER}.self_attn.o_proj")),
    **dict(linear(f"{BLOCK}.feed_forward.gate", f"{LAYER}.mlp.gate_proj")),
    **dict(linear(f"{BLOCK}.feed_forward.up", f"{LAYER}.mlp.up_proj")),
    **dict(linear(f"{BLOCK}.feed_forward.down", f"{LAYER}.mlp.down_proj")),
}

IGNORED_TENSORS = {r".*\.rotary_emb\.inv_freq": "computed from the config"}

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
#: For families with sliding windows in some layers.
WINDOW_RULES: Rules = {
    "sliding_window": Read(int, None),
    "layer_types": Read(list, None),
}
ONE_RANK = {"pretraining_tp": FixedValue(1)}


def decoder_family(
    model_type: str,
    stem: str,
    *,
    rules: Rules,
    read: Callable[[Table, DirectoryContents], config.Transformer],
    describe: Callable[[config.Transformer], Table],
    names: Names = NAMES,
    classifies: bool = True,
) -> Family:
    """A family with the class `stem`ForCausalLM and, if it `classifies`, one for classes.

    Args:
        model_type: its name.
        stem: of the names of its classes.
        rules: its attributes, besides those of `RULES`.
        read: from attributes to a config.
        describe: from a config to attributes.
        names: the published tensor of each parameter.
        classifies: whether it has the class `stem`ForSequenceClassification.
    """
    family = Family(
        model_type=model_type,
        architectures=(f"{stem}ForCausalLM",),
        rules={**RULES, **rules},
        names=names,
        read=read,
        describe=describe,
        prefix="model.",
        ignored_tensors=IGNORED_TENSORS,
    )
    return with_score(family, stem) if classifies else family


def with_score(family: Family, stem: str) -> Family:
    """The family with the class `stem`ForSequenceClassification of decoders."""
    architecture = f"{stem}ForSequenceClassification"
    return with_classes(family, architecture, "score", pooling="last", bias=False)


def read_attention(
    attributes: Table, *, qkv_bias: bool | None = None, out_bias: bool | None = None
) -> config.MultiHead:
    """Attention with the common attributes; biases are `attention_bias` by default."""
    n_heads: int = attributes["num_attention_heads"]
    d_head: int | None = attributes["head_dim"]
    n_kv_heads: int | None = attributes["num_key_value_heads"]
    return config.MultiHead(
        n_heads=n_heads,
        n_kv_heads=n_heads if n_kv_heads is None else n_kv_heads,
        d_head=attributes["hidden_size"] // n_heads if d_head is None else d_head,
        qkv_bias=attributes["attention_bias"] if qkv_bias is None else qkv_bias,
        out_bias=attributes["attention_bias"] if out_bias is None else out_bias,
        qk_norm=None,
        dropout=attributes["attention_dropout"],
    )


def read_layers(
    attributes: Table, full: config.MultiHead, default: Callable[[int], bool]
) -> config.Attention:
    """The attention of all layers, some of them with a window.

    Args:
        attributes: may have `layer_types`, the kind of each layer.
        full: attention without a window.
        default: without `layer_types`, whether the layer of this number has a window.

    Raises:
        CheckpointError: a type is not handled, or there is not one for each layer.
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


_PRE_NORM = config.PreNorm()


def read_decoder(
    attributes: Table,
    attention: config.Attention,
    *,
    norm: config.Norm | None = None,
    residual: config.Residual = _PRE_NORM,
    mlp_bias: bool = False,
    act: str = "hidden_act",
) -> config.Transformer:
    """The whole model.

    Args:
        attributes: read by `RULES`.
        attention: of all layers.
        norm: by default `rms_norm`.
        residual: where the norms are.
        mlp_bias: whether feed-forward layers have biases.
        act: the attribute with the activation.
    """
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
            feed_forward=config.GatedMLP(
                d_ff=attributes["intermediate_size"],
                activation=activation(attributes[act], act),
                bias=mlp_bias,
            ),
            norm=rms_norm(attributes) if norm is None else norm,
            residual=residual,
            final_norm=True,
            dropout=0.0,
        ),
        initialisation=normal_start(attributes["initializer_range"]),
    )


def rms_norm(attributes: Table, *, unit_offset: bool = False) -> config.RMSNorm:
    """The common norm."""
    return config.RMSNorm(eps=attributes["rms_norm_eps"], unit_offset=unit_offset)


def describe_decoder(model: config.Transformer, *, act: str = "hidden_act") -> Table:
    """The attributes of `RULES`.

    Raises:
        Unfit: the model is not a decoder with rotary positions and multi-head attention.
    """
    stack = lone_decoder(model)
    attention = multi_head(stack)
    return {
        "vocab_size": model.rows,
        "hidden_size": model.d_model,
        "intermediate_size": feed_forward(stack).d_ff,
        "num_hidden_layers": stack.n_layers,
        "num_attention_heads": attention.n_heads,
        "num_key_value_heads": attention.n_kv_heads,
        "head_dim": attention.d_head,
        act: WRITTEN_ACTIVATIONS[feed_forward(stack).activation],
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
        layer.attention.window if isinstance(layer.attention, config.MultiHead) else None
        for layer in stack.layers
    ]
    return {
        "sliding_window": next((w for w in windows if w is not None), None),
        "layer_types": [
            "full_attention" if window is None else "sliding_attention" for window in windows
        ],
    }
