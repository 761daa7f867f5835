"""Bloom and MPT: decoders whose only positions are ALiBi's penalties.

Bloom has biases and a norm of the embedded tokens. MPT has no biases, and can clip queries, keys
and values.

Source: BigScience 2022, "BLOOM"; MosaicML NLP Team 2023, "Introducing MPT-7B".
"""

from __future__ import annotations

from pellucid.checkpoints.huggingface.attributes import ANYWHERE, Read, Table
from pellucid.checkpoints.huggingface.config_tree import set_values, values_at
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
    computed,
    depth,
    fixed,
    flag,
    ignored,
    integer,
    number,
    quotient,
    training_number,
)
from pellucid.checkpoints.huggingface.names import Source, fused, linear, norm
from pellucid.errors import CheckpointError
from pellucid.reader import short

_BLOCK = "decoder.blocks.{n}"
_QKV = ("query", "key", "value")
_MLP: Table = {"kind": "MLP", "bias": True}
_LAYER_NORM: Table = {"kind": "LayerNorm", "bias": True}
_ALIBI: Table = {"kind": "ALiBi"}


def _bloom_skeleton() -> Table:
    table = skeleton(
        attention={"qkv_bias": True, "out_bias": True},
        feed_forward={**_MLP, "activation": "gelu_tanh"},
        norm=_LAYER_NORM,
        positions=_ALIBI,
    )
    return {**table, "decoder": {**table["decoder"], "input_norm": _LAYER_NORM}}


_BLOOM_LAYER = "transformer.h.{n}"
BLOOM = decoder_family(
    "bloom",
    "Bloom",
    (
        integer("vocab_size", "vocab_size"),
        integer("hidden_size", "d_model"),
        depth("n_layer", "decoder"),
        integer("n_head", f"{ATTENTION}.n_heads", f"{ATTENTION}.n_kv_heads"),
        computed(quotient("hidden_size", "n_head").value, f"{ATTENTION}.d_head"),
        computed(lambda attributes: 4 * attributes["hidden_size"], f"{FEED}.d_ff"),
        integer("seq_length", "context_length", default=2048),
        number("layer_norm_epsilon", "decoder.norm.eps", "decoder.input_norm.eps", default=1e-5),
        flag("tie_word_embeddings", "embedding.tied", default=True),
        training_number("hidden_dropout", "decoder.dropout"),
        training_number("attention_dropout", f"{ATTENTION}.dropout"),
        initial_std(),
        fixed("apply_residual_connection_post_layernorm", False),
        ignored("the same products in another order", "pretraining_tp", "slow_but_exact"),
        ignored(
            "how it was trained",
            *("offset_alibi", "masked_softmax_fusion", "bias_dropout_fusion", "n_inner"),
            *("attention_softmax_in_fp32", "skip_bias_add", "skip_bias_add_qkv"),
        ),
    ),
    skeleton=_bloom_skeleton(),
    names={
        "token_embedding.weight": Source("transformer.word_embeddings.weight"),
        "head.weight": Source("lm_head.weight"),
        **dict(linear("classifier", "score")),
        **dict(norm("decoder.input_norm", "transformer.word_embeddings_layernorm")),
        **dict(norm("decoder.final_norm", "transformer.ln_f")),
        **dict(norm(f"{_BLOCK}.attention_norm", f"{_BLOOM_LAYER}.input_layernorm")),
        **dict(norm(f"{_BLOCK}.feed_forward_norm", f"{_BLOOM_LAYER}.post_attention_layernorm")),
        **dict(
            fused(
                f"{_BLOCK}.attention",
                _QKV,
                f"{_BLOOM_LAYER}.self_attention.query_key_value",
                groups="heads",
            )
        ),
        **dict(linear(f"{_BLOCK}.attention.output", f"{_BLOOM_LAYER}.self_attention.dense")),
        **dict(linear(f"{_BLOCK}.feed_forward.up", f"{_BLOOM_LAYER}.mlp.dense_h_to_4h")),
        **dict(linear(f"{_BLOCK}.feed_forward.down", f"{_BLOOM_LAYER}.mlp.dense_4h_to_h")),
    },
    prefix="transformer.",
    ignored_tensors={},
)

#: The attributes of MPT's table of attention that `transformers` computes with, and their defaults.
_ATTENTION: Table = {
    "attn_pdrop": 0.0, "clip_qkv": None, "softmax_scale": None,
}  # fmt: skip
#: Those with one value. `transformers` computes with 8 whatever `alibi_bias_max` says.
_ONE_VALUE: Table = {
    "attn_type": "multihead_attention", "prefix_lm": False, "qk_ln": False, "alibi": True,
    "attn_uses_sequence_id": False, "rope": False, "sliding_window_size": -1, "qk_gn": False,
    "alibi_bias_max": 8,
}  # fmt: skip


def _read_attention(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
    table: Table = {**_ATTENTION, **(attributes["attn_config"] or {})}
    for name, value in table.items():
        only_value = _ONE_VALUE.get(name, value)
        has_rule = name in _ATTENTION or name in _ONE_VALUE or name in ANYWHERE
        if name == "attn_impl" or (has_rule and value == only_value):
            continue
        expected = (
            f"the only value is {short(only_value)}" if has_rule else "no such attribute is known"
        )
        raise CheckpointError(
            f"config.json: attn_config.{name} = {short(value)} is not handled: {expected}"
        )
    for name in _ATTENTION:
        value = table[name]
        if value is not None and type(value) not in (int, float):
            raise CheckpointError(
                f"config.json: attn_config.{name} must be a number, was {short(value)}"
            )
    set_values(tree, f"{ATTENTION}.clip", table["clip_qkv"] or None)
    set_values(tree, f"{ATTENTION}.scale", table["softmax_scale"])
    set_values(tree, f"{ATTENTION}.dropout", table["attn_pdrop"])
    set_values(tree, "decoder.dropout", table["attn_pdrop"])


def _write_attention(tree: Table) -> Table:
    (clip, *_), (scale, *_) = (values_at(tree, f"{ATTENTION}.{key}") for key in ("clip", "scale"))
    rate = values_at(tree, f"{ATTENTION}.dropout")[0]
    table = {
        "attn_pdrop": 0 if rate == 0 else rate,  # transformers wants a whole number
        "clip_qkv": clip,
        "softmax_scale": scale,
    }
    return {"attn_config": table}


_MPT_LAYER = "transformer.blocks.{n}"
MPT = decoder_family(
    "mpt",
    "Mpt",
    (
        integer("vocab_size", "vocab_size"),
        integer("d_model", "d_model"),
        depth("n_layers", "decoder"),
        integer("n_heads", f"{ATTENTION}.n_heads", f"{ATTENTION}.n_kv_heads"),
        computed(quotient("d_model", "n_heads").value, f"{ATTENTION}.d_head"),
        computed(lambda attributes: 4 * attributes["d_model"], f"{FEED}.d_ff"),
        integer("max_seq_len", "context_length", default=2048),
        number("layer_norm_epsilon", "decoder.norm.eps", default=1e-5),
        flag("tie_word_embeddings", "embedding.tied", default=True),
        Row(rules={"attn_config": Read(dict, None)}, read=_read_attention, write=_write_attention),
        initial_std(),
        fixed("expansion_ratio", 4),
        fixed("no_bias", True),
        fixed("logit_scale", None),
        ignored("ALiBi takes the place of learned positions", "learned_pos_emb"),
        ignored("transformers has no such dropout", "emb_pdrop", "resid_pdrop"),
        ignored("how it was trained", "embedding_fraction", "init_device", "init_config"),
        ignored("one kind of norm, in another precision", "norm_type", "verbose"),
        ignored("the file's own tokenizer", "tokenizer_name"),
    ),
    skeleton=skeleton(
        feed_forward={"kind": "MLP", "bias": False, "activation": "gelu"},
        norm={"kind": "LayerNorm", "bias": False},
        positions=_ALIBI,
    ),
    names={
        "token_embedding.weight": Source("transformer.wte.weight"),
        "head.weight": Source("lm_head.weight"),
        **dict(linear("classifier", "score")),
        **dict(norm("decoder.final_norm", "transformer.norm_f")),
        **dict(norm(f"{_BLOCK}.attention_norm", f"{_MPT_LAYER}.norm_1")),
        **dict(norm(f"{_BLOCK}.feed_forward_norm", f"{_MPT_LAYER}.norm_2")),
        **dict(fused(f"{_BLOCK}.attention", _QKV, f"{_MPT_LAYER}.attn.Wqkv")),
        **dict(linear(f"{_BLOCK}.attention.output", f"{_MPT_LAYER}.attn.out_proj")),
        **dict(linear(f"{_BLOCK}.feed_forward.up", f"{_MPT_LAYER}.ffn.up_proj")),
        **dict(linear(f"{_BLOCK}.feed_forward.down", f"{_MPT_LAYER}.ffn.down_proj")),
    },
    prefix="transformer.",
    ignored_tensors={},
)
