"""Falcon: one matrix has queries, keys and values, by groups of heads that share a key.

Its first architecture has one key and value for all heads, or one for each, and attention and
feed-forward read one norm, or come one after another. The new one has any number of keys, and two
norms or one. Positions are rotary, or ALiBi's penalties, scaled and rounded.

Source: Almazrouei et al. 2023, "The Falcon Series of Open Language Models".
"""

from __future__ import annotations

from typing import Any

from pellucid import config
from pellucid.checkpoints.huggingface.activations import activation
from pellucid.checkpoints.huggingface.attributes import Derived, Read, Table
from pellucid.checkpoints.huggingface.config_tree import set_values, values_at
from pellucid.checkpoints.huggingface.families.decoders import (
    ATTENTION,
    BIASES,
    FEED,
    HEAD_WIDTH,
    POSITIONS,
    decoder_family,
    initial_std,
    skeleton,
)
from pellucid.checkpoints.huggingface.mapping import (
    DirectoryContents,
    Row,
    Unfit,
    choice,
    computed,
    depth,
    fixed,
    flag,
    integer,
    number,
    training_number,
)
from pellucid.checkpoints.huggingface.names import Names, Source, fused, linear, norm
from pellucid.checkpoints.huggingface.rotary import rotary_row
from pellucid.errors import CheckpointError

_ROTARY: Table = {"kind": "Rotary"}
_ALIBI: Table = {"kind": "ALiBi", "scaled": True, "rounded": True}
_ARCHITECTURE = {
    "new_decoder_architecture": Read(bool, False),
    "multi_query": Read(bool, True),
    "parallel_attn": Read(bool, True),
    "num_ln_in_parallel_attn": Read(int, None),
    "num_kv_heads": Read(int, None),
}


def _read_architecture(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
    new, parallel = attributes["new_decoder_architecture"], attributes["parallel_attn"]
    n_norms: int | None = attributes["num_ln_in_parallel_attn"]
    if new and not parallel:
        raise CheckpointError(
            "config.json: parallel_attn = false is not handled with new_decoder_architecture, "
            "whose layers are always parallel"
        )
    if parallel and n_norms not in ((None, 1, 2) if new else (None, 1)):
        raise CheckpointError(
            f"config.json: num_ln_in_parallel_attn = {n_norms} is not handled; those that are: 1"
            + (", 2" if new else "; 2 needs new_decoder_architecture")
        )
    n_heads: int = attributes["num_attention_heads"]
    multi_query = attributes["multi_query"] and not new
    stated: int | None = attributes["num_kv_heads"]
    n_kv_heads = n_heads if stated is None or not new else stated
    set_values(tree, f"{ATTENTION}.n_kv_heads", 1 if multi_query else n_kv_heads)
    shared = not new or n_norms == 1
    tree["decoder"]["residual"] = (
        {"kind": "Parallel", "shared_norm": shared} if parallel else {"kind": "PreNorm"}
    )


def _write_architecture(tree: Table) -> Table:
    residual: Table = tree["decoder"]["residual"]
    (n_heads, *_), (n_kv_heads, *_) = (
        values_at(tree, f"{ATTENTION}.{name}") for name in ("n_heads", "n_kv_heads")
    )
    parallel, shared = residual["kind"] == "Parallel", residual.get("shared_norm", False)
    new = parallel and (not shared or n_kv_heads not in (1, n_heads))
    if not parallel and residual["kind"] != "PreNorm":
        raise Unfit(f"residual is {residual['kind']}, but this family has Parallel or PreNorm")
    if not new and n_kv_heads not in (1, n_heads):
        raise Unfit(
            f"n_kv_heads is {n_kv_heads}, but without parallel layers this family has 1 or "
            f"{n_heads}"
        )
    return {
        "new_decoder_architecture": new,
        "multi_query": not new and n_kv_heads == 1,
        "parallel_attn": parallel,
        "num_ln_in_parallel_attn": (1 if shared else 2) if new else None,
        "num_kv_heads": n_kv_heads if new else n_heads,
    }


_BLOCK, _LAYER = "decoder.blocks.{n}", "transformer.h.{n}"


def _names(model: config.Transformer) -> Names:
    decoder = model.decoder
    two = (
        decoder is not None
        and isinstance(decoder.residual, config.Parallel)
        and not decoder.residual.shared_norm
    )
    first, second = (
        ("ln_attn", "ln_mlp") if two else ("input_layernorm", "post_attention_layernorm")
    )
    return {
        "token_embedding.weight": Source("transformer.word_embeddings.weight"),
        "head.weight": Source("lm_head.weight"),
        **dict(linear("classifier", "score")),
        **dict(norm("decoder.final_norm", "transformer.ln_f")),
        **dict(norm(f"{_BLOCK}.attention_norm", f"{_LAYER}.{first}")),
        **dict(norm(f"{_BLOCK}.feed_forward_norm", f"{_LAYER}.{second}")),
        **dict(
            fused(
                f"{_BLOCK}.attention",
                ("query", "key", "value"),
                f"{_LAYER}.self_attention.query_key_value",
                groups="kv_heads",
            )
        ),
        **dict(linear(f"{_BLOCK}.attention.output", f"{_LAYER}.self_attention.dense")),
        **dict(linear(f"{_BLOCK}.feed_forward.up", f"{_LAYER}.mlp.dense_h_to_4h")),
        **dict(linear(f"{_BLOCK}.feed_forward.down", f"{_LAYER}.mlp.dense_4h_to_h")),
    }


def _four_times(attributes: Table) -> Any:
    return 4 * attributes["hidden_size"]


FALCON = decoder_family(
    "falcon",
    "Falcon",
    (
        integer("vocab_size", "vocab_size"),
        integer("hidden_size", "d_model"),
        depth("num_hidden_layers", "decoder"),
        integer("num_attention_heads", f"{ATTENTION}.n_heads"),
        computed(HEAD_WIDTH.value, f"{ATTENTION}.d_head"),
        integer("max_position_embeddings", "context_length", default=2048),
        integer("ffn_hidden_size", f"{FEED}.d_ff", default=Derived("4 * hidden_size", _four_times)),
        activation("activation", f"{FEED}.activation", default="gelu"),
        Row(rules=_ARCHITECTURE, read=_read_architecture, write=_write_architecture),
        flag("bias", *BIASES, f"{FEED}.bias", default=False),
        choice("alibi", {False: _ROTARY, True: _ALIBI}, POSITIONS, default=False),
        rotary_row(),
        number("layer_norm_epsilon", "decoder.norm.eps", default=1e-5),
        flag("tie_word_embeddings", "embedding.tied", default=True),
        training_number("hidden_dropout", "decoder.dropout"),
        training_number("attention_dropout", f"{ATTENTION}.dropout"),
        initial_std(),
        fixed("apply_residual_connection_post_layernorm", False),
    ),
    skeleton=skeleton(
        feed_forward={"kind": "MLP"},
        norm={"kind": "LayerNorm", "bias": True},
        residual=None,
        positions={},
    ),
    names=_names,
    prefix="transformer.",
    ignored_tensors={r".*rotary_emb\.inv_freq": "computed from the config"},
)
