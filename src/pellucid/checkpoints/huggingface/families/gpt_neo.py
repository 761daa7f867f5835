"""GPT-Neo: GPT-2 with separate matrices, windows in every other layer, and scores without a scale.

Source: Black et al. 2021, "GPT-Neo: Large Scale Autoregressive Language Modeling with
Mesh-Tensorflow".
"""

from __future__ import annotations

from typing import Any

from pellucid.checkpoints.huggingface.activations import activation
from pellucid.checkpoints.huggingface.attributes import Derived, Read, Table
from pellucid.checkpoints.huggingface.config_tree import values_at
from pellucid.checkpoints.huggingface.families.decoders import (
    ATTENTION,
    FEED,
    decoder_family,
    initial_std,
    skeleton,
)
from pellucid.checkpoints.huggingface.mapping import (
    DirectoryContents,
    Row,
    Unfit,
    computed,
    depth,
    flag,
    ignored,
    integer,
    number,
    quotient,
    training_number,
)
from pellucid.checkpoints.huggingface.names import Names, Source, linear, norm
from pellucid.errors import CheckpointError
from pellucid.reader import short

_LOCAL = "local"


def _kinds(types: list[Any]) -> list[str]:
    """The kind of each layer: each entry names kinds, and how often they repeat."""
    kinds: list[str] = []
    for entry in types:
        try:
            names, times = entry
            kinds += [str(name) for name in names] * times
        except (TypeError, ValueError):
            raise CheckpointError(
                "config.json: attention_types must have entries such as "
                f'[["global", "local"], 12], was {short(entry)}'
            ) from None
    return kinds


def _read_windows(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
    layers: list[Table] = tree["decoder"]["layers"]
    kinds = _kinds(attributes["attention_types"])
    if len(kinds) != len(layers):
        raise CheckpointError(
            f"config.json: attention_types names {len(kinds)} layers, but num_layers is "
            f"{len(layers)}"
        )
    for layer, kind in zip(layers, kinds, strict=True):
        if kind not in ("global", _LOCAL):
            raise CheckpointError(
                f"config.json: attention_types names {short(kind)}, which is not handled; those "
                "that are: global, local"
            )
        if kind == _LOCAL:
            layer["attention"]["window"] = attributes["window_size"]


def _write_windows(tree: Table) -> Table:
    windows: list[int | None] = values_at(tree, f"{ATTENTION}.window")
    sizes = sorted({window for window in windows if window is not None})
    if len(sizes) > 1:
        raise Unfit(f"attention.window is {sizes[0]} and {sizes[1]}, but this family has one size")
    kinds = ["global" if window is None else _LOCAL for window in windows]
    return {"attention_types": [[kinds, 1]], **({"window_size": sizes[0]} if sizes else {})}


_BLOCK, _LAYER = "decoder.blocks.{n}", "transformer.h.{n}"
_NAMES: Names = {
    "token_embedding.weight": Source("transformer.wte.weight"),
    "decoder.positions.embedding.weight": Source("transformer.wpe.weight"),
    "head.weight": Source("lm_head.weight"),
    **dict(linear("classifier", "score")),
    **dict(norm("decoder.final_norm", "transformer.ln_f")),
    **dict(norm(f"{_BLOCK}.attention_norm", f"{_LAYER}.ln_1")),
    **dict(norm(f"{_BLOCK}.feed_forward_norm", f"{_LAYER}.ln_2")),
    **dict(linear(f"{_BLOCK}.attention.query", f"{_LAYER}.attn.attention.q_proj")),
    **dict(linear(f"{_BLOCK}.attention.key", f"{_LAYER}.attn.attention.k_proj")),
    **dict(linear(f"{_BLOCK}.attention.value", f"{_LAYER}.attn.attention.v_proj")),
    **dict(linear(f"{_BLOCK}.attention.output", f"{_LAYER}.attn.attention.out_proj")),
    **dict(linear(f"{_BLOCK}.feed_forward.up", f"{_LAYER}.mlp.c_fc")),
    **dict(linear(f"{_BLOCK}.feed_forward.down", f"{_LAYER}.mlp.c_proj")),
}

GPT_NEO = decoder_family(
    "gpt_neo",
    "GPTNeo",
    (
        integer("vocab_size", "vocab_size"),
        integer("max_position_embeddings", "context_length", default=2048),
        integer("hidden_size", "d_model"),
        depth("num_layers", "decoder"),
        integer("num_heads", f"{ATTENTION}.n_heads", f"{ATTENTION}.n_kv_heads"),
        computed(quotient("hidden_size", "num_heads").value, f"{ATTENTION}.d_head"),
        integer(
            "intermediate_size",
            f"{FEED}.d_ff",
            default=Derived("4 * hidden_size", lambda table: 4 * table["hidden_size"]),
        ),
        activation(
            "activation_function",
            f"{FEED}.activation",
            default="gelu_new",
            other_names={"gelu_tanh": "gelu_new"},
        ),
        Row(
            rules={
                "attention_types": Read(list, [[["global", "local"], 12]]),
                "window_size": Read(int, 256),
            },
            read=_read_windows,
            write=_write_windows,
        ),
        training_number("resid_dropout", "decoder.dropout"),
        training_number("embed_dropout", "decoder.embedding_dropout"),
        training_number("attention_dropout", f"{ATTENTION}.dropout"),
        number("layer_norm_epsilon", "decoder.norm.eps", default=1e-5),
        flag("tie_word_embeddings", "embedding.tied", default=True),
        initial_std(),
        ignored("follows from attention_types", "attention_layers"),
        ignored(
            "for the heads of other tasks",
            *("summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels"),
            "summary_first_dropout",
        ),
    ),
    skeleton=skeleton(
        attention={"out_bias": True, "scale": 1.0},
        feed_forward={"kind": "MLP", "bias": True},
        norm={"kind": "LayerNorm", "bias": True},
        positions={"kind": "Learned"},
    ),
    names=_NAMES,
    prefix="transformer.",
    ignored_tensors={r".*\.attn\.attention\.(bias|masked_bias)": "the causal mask"},
)
