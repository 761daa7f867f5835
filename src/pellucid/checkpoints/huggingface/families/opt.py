"""OPT: learned positions from row 2 of their table, with norms before each layer or after.

The vectors of tokens can be narrower than the model. Then one matrix widens them before positions
are added, and another narrows the states before the logits.

Source: Zhang et al. 2022, "OPT: Open Pre-trained Transformer Language Models", and its released
code.
"""

from __future__ import annotations

from pellucid.checkpoints.huggingface.activations import activation
from pellucid.checkpoints.huggingface.attributes import Read, Table
from pellucid.checkpoints.huggingface.families.decoders import (
    ATTENTION,
    BIASES,
    BLOCK,
    FEED,
    HEAD_WIDTH,
    decoder_family,
    initial_std,
    skeleton,
)
from pellucid.checkpoints.huggingface.mapping import (
    DirectoryContents,
    Row,
    choice,
    computed,
    depth,
    flag,
    ignored,
    integer,
    same_as,
    training_number,
)
from pellucid.checkpoints.huggingface.names import Names, Source, linear, norm
from pellucid.errors import CheckpointError

_NORM: Table = {"kind": "LayerNorm", "eps": 1e-5, "bias": True}


def _read_width(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
    """The width of the tokens' vectors, with the maps from it and to it."""
    width = attributes["word_embed_proj_dim"]
    if width == tree["d_model"]:
        return
    if tree["head"]["kind"] != "LanguageHead":
        raise CheckpointError(
            f"config.json: word_embed_proj_dim = {width} is not handled in {stored.architecture}: "
            f"it must be hidden_size, {tree['d_model']}, because states keep that width without a "
            "head for tokens"
        )
    projection = {"kind": "EmbeddingProjection", "width": width, "bias": False, "place": "first"}
    tree["embedding"]["projection"] = projection
    tree["head"]["transform"] = {"kind": "HeadTransform", "bias": False}


def _write_width(tree: Table) -> Table:
    projection: Table = tree["embedding"].get("projection", {})
    return {"word_embed_proj_dim": projection.get("width", tree["d_model"])}


def _read_final_norm(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
    is_first: bool = attributes["do_layer_norm_before"]
    tree["decoder"]["final_norm"] = is_first and not attributes["_remove_final_layer_norm"]


def _write_final_norm(tree: Table) -> Table:
    # norms after the layers never have another one at the end
    is_first = tree["decoder"]["residual"]["kind"] == "PreNorm"
    return {"_remove_final_layer_norm": is_first and not tree["decoder"]["final_norm"]}


def decoder_names(path: str, final_norm: str) -> Names:
    """The names of a decoder of fairseq.

    Args:
        path: of the decoder. final_norm: the name of its last norm.
    """
    layer = f"{path}.layers.{{n}}"
    return {
        "token_embedding.weight": Source(f"{path}.embed_tokens.weight"),
        "decoder.positions.embedding.weight": Source(f"{path}.embed_positions.weight"),
        "head.weight": Source("lm_head.weight"),
        **dict(linear("classifier", "score")),
        **dict(norm("decoder.final_norm", f"{path}.{final_norm}")),
        **dict(norm(f"{BLOCK}.attention_norm", f"{layer}.self_attn_layer_norm")),
        **dict(norm(f"{BLOCK}.feed_forward_norm", f"{layer}.final_layer_norm")),
        **dict(linear(f"{BLOCK}.attention.query", f"{layer}.self_attn.q_proj")),
        **dict(linear(f"{BLOCK}.attention.key", f"{layer}.self_attn.k_proj")),
        **dict(linear(f"{BLOCK}.attention.value", f"{layer}.self_attn.v_proj")),
        **dict(linear(f"{BLOCK}.attention.output", f"{layer}.self_attn.out_proj")),
        **dict(linear(f"{BLOCK}.feed_forward.up", f"{layer}.fc1")),
        **dict(linear(f"{BLOCK}.feed_forward.down", f"{layer}.fc2")),
    }


OPT = decoder_family(
    "opt",
    "OPT",
    (
        integer("vocab_size", "vocab_size", default=50272),
        integer("hidden_size", "d_model", default=768),
        depth("num_hidden_layers", "decoder", default=12),
        integer(
            "num_attention_heads", f"{ATTENTION}.n_heads", f"{ATTENTION}.n_kv_heads", default=12
        ),
        computed(HEAD_WIDTH.value, f"{ATTENTION}.d_head"),
        integer("ffn_dim", f"{FEED}.d_ff", default=3072),
        integer("max_position_embeddings", "context_length", default=2048),
        activation("activation_function", f"{FEED}.activation", default="relu"),
        choice(
            "do_layer_norm_before",
            {True: {"kind": "PreNorm"}, False: {"kind": "PostNorm"}},
            "decoder.residual",
            default=True,
        ),
        Row(
            rules={"_remove_final_layer_norm": Read(bool, False)},
            read=_read_final_norm,
            write=_write_final_norm,
        ),
        Row(
            rules={"word_embed_proj_dim": Read(int, same_as("hidden_size"))},
            read=_read_width,
            write=_write_width,
        ),
        flag("enable_bias", *BIASES, f"{FEED}.bias", default=True),
        choice(
            "layer_norm_elementwise_affine",
            {True: _NORM, False: {**_NORM, "bias": False, "gain": False}},
            "decoder.norm",
            default=True,
        ),
        training_number("dropout", "decoder.dropout", default=0.1),
        training_number("attention_dropout", f"{ATTENTION}.dropout"),
        flag("tie_word_embeddings", "embedding.tied", default=True),
        initial_std("init_std"),
        ignored("only in training", "activation_dropout", "layerdrop"),
    ),
    skeleton=skeleton(
        feed_forward={"kind": "MLP"},
        norm={},
        residual=None,
        positions={"kind": "Learned", "offset": 2},
    ),
    names={
        **decoder_names("model.decoder", "final_layer_norm"),
        **dict(linear("decoder.input_projection", "model.decoder.project_in")),
        **dict(linear("head_transform.dense", "model.decoder.project_out")),
    },
    absent_ids=("pad_token_id",),
)
