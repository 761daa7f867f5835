"""ModernBERT: an encoder with rotary positions, gated layers, and windows in two of three layers.

Layers with a window rotate at other angles than those that see the whole text. The first layer's
attention reads the normalised embedding as it is. A window of `local_attention` tokens reaches half
of them to either side.

Source: Warner et al. 2024, "Smarter, Better, Faster, Longer: A Modern Bidirectional Encoder for
Fast, Memory Efficient, and Long Context Finetuning and Inference".
"""

from __future__ import annotations

from pellucid.checkpoints.huggingface.activations import activation
from pellucid.checkpoints.huggingface.attributes import Read, Table
from pellucid.checkpoints.huggingface.classes import classes_row, classification_head
from pellucid.checkpoints.huggingface.config_tree import values_at
from pellucid.checkpoints.huggingface.families.decoders import (
    initial_std,
    initialisation,
    layer_types,
)
from pellucid.checkpoints.huggingface.family import NO_HEAD, Family
from pellucid.checkpoints.huggingface.layer_rotary import LayerBase, layer_rotary_row
from pellucid.checkpoints.huggingface.mapping import (
    DirectoryContents,
    Row,
    Unfit,
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
from pellucid.errors import CheckpointError

_ATTENTION, _FEED = "encoder.layers.attention", "encoder.layers.feed_forward"
_TRANSFORM = "head.transform?"
_NORMS = "encoder.norm", "encoder.input_norm", f"{_TRANSFORM}.norm"
_NORM: Table = {"kind": "LayerNorm"}
#: A dense layer, an activation and a norm come before both heads.
_HEAD: Table = {"transform": {"kind": "HeadTransform", "norm": _NORM}}
_EVERY = "global_attn_every_n_layers"
_KINDS = ["full_attention", "sliding_attention"]


def _read_windows(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
    layers: list[Table] = tree["encoder"]["layers"]
    every: int = attributes[_EVERY]
    if every < 1:
        raise CheckpointError(f"config.json: {_EVERY} must be at least 1, was {every}")
    default = [_KINDS[layer % every > 0] for layer in range(len(layers))]
    for layer, kind in zip(layers, layer_types(attributes, default, _KINDS), strict=True):
        if kind == _KINDS[1]:
            layer["attention"]["window"] = attributes["local_attention"] // 2 + 1


def _write_windows(tree: Table) -> Table:
    """The kinds of layers as one number if that can say them: all versions read it."""
    windows: list[int | None] = values_at(tree, f"{_ATTENTION}.window")
    sizes = sorted({window for window in windows if window is not None})
    if len(sizes) > 1:
        raise Unfit(f"attention.window is {sizes[0]} and {sizes[1]}, but this family has one size")
    size: Table = {"local_attention": 2 * (sizes[0] - 1)} if sizes else {}
    full = [layer for layer, window in enumerate(windows) if window is None]
    every = full[1] if len(full) > 1 else len(windows)
    if full == list(range(0, len(windows), every)):
        return {_EVERY: every, **size}
    return {"layer_types": [_KINDS[window is not None] for window in windows], **size}


_BLOCK, _LAYER = "encoder.blocks.{n}", "model.layers.{n}"
_NAMES: Names = {
    "token_embedding.weight": Source("model.embeddings.tok_embeddings.weight"),
    **dict(norm("encoder.input_norm", "model.embeddings.norm")),
    **dict(norm(f"{_BLOCK}.attention_norm", f"{_LAYER}.attn_norm")),
    **dict(fused(f"{_BLOCK}.attention", ("query", "key", "value"), f"{_LAYER}.attn.Wqkv")),
    **dict(linear(f"{_BLOCK}.attention.output", f"{_LAYER}.attn.Wo")),
    **dict(norm(f"{_BLOCK}.feed_forward_norm", f"{_LAYER}.mlp_norm")),
    **dict(fused(f"{_BLOCK}.feed_forward", ("gate", "up"), f"{_LAYER}.mlp.Wi")),
    **dict(linear(f"{_BLOCK}.feed_forward.down", f"{_LAYER}.mlp.Wo")),
    **dict(norm("encoder.final_norm", "model.final_norm")),
    **dict(linear("head_transform.dense", "head.dense")),
    **dict(norm("head_transform.norm", "head.norm")),
    "head.weight": Source("decoder.weight"),
    "head_bias": Source("decoder.bias"),
    **dict(linear("classifier_transform.dense", "head.dense")),
    **dict(norm("classifier_transform.norm", "head.norm")),
    **dict(linear("classifier", "classifier")),
}

MODERNBERT = Family(
    model_type="modernbert",
    heads={
        "ModernBertForMaskedLM": {"kind": "LanguageHead", **_HEAD},
        "ModernBertModel": NO_HEAD,
        "ModernBertForSequenceClassification": {
            **classification_head("first", bias=True),
            **_HEAD,
        },
    },
    skeleton={
        "kind": "Transformer",
        "embedding": {"kind": "Embedding", "scaled": False},
        "encoder": {
            "kind": "Stack",
            "layers": [
                {
                    "attention": {"kind": "MultiHead"},
                    "feed_forward": {"kind": "GatedMLP"},
                    "positions": {},
                }
            ],
            "norm": _NORM,
            "input_norm": _NORM,
            "residual": {"kind": "PreNorm"},
            "first_attention_norm": False,
            "final_norm": True,
            "dropout": 0.0,
        },
        "initialisation": initialisation("depth_scaled"),
    },
    rows=(
        integer("vocab_size", "vocab_size", default=50368),
        integer("hidden_size", "d_model", default=768),
        depth("num_hidden_layers", "encoder", default=22),
        integer(
            "num_attention_heads", f"{_ATTENTION}.n_heads", f"{_ATTENTION}.n_kv_heads", default=12
        ),
        computed(quotient("hidden_size", "num_attention_heads").value, f"{_ATTENTION}.d_head"),
        integer("intermediate_size", f"{_FEED}.d_ff", default=1152),
        integer("max_position_embeddings", "context_length", default=8192),
        activation("hidden_activation", f"{_FEED}.activation", default="gelu"),
        activation("classifier_activation", f"{_TRANSFORM}.activation", default="gelu"),
        number("norm_eps", *(f"{path}.eps" for path in _NORMS), default=1e-5),
        flag("norm_bias", *(f"{path}.bias" for path in _NORMS), default=False),
        flag("attention_bias", f"{_ATTENTION}.qkv_bias", f"{_ATTENTION}.out_bias", default=False),
        flag("mlp_bias", f"{_FEED}.bias", default=False),
        flag("classifier_bias", f"{_TRANSFORM}.bias", default=False),
        flag("decoder_bias", "head:LanguageHead.bias", default=True),
        choice(
            "classifier_pooling",
            {"cls": "first", "mean": "mean"},
            "head:ClassificationHead.pooling",
            default="cls",
        ),
        Row(
            rules={
                _EVERY: Read(int, 3),
                "layer_types": Read(list, None),
                "local_attention": Read(int, 128),
            },
            read=_read_windows,
            write=_write_windows,
        ),
        layer_rotary_row(
            "encoder",
            full=LayerBase("global_rope_theta", 160_000.0, scaled=True),
            sliding=LayerBase("local_rope_theta", 10_000.0, scaled=True),
        ),
        training_number("embedding_dropout", "encoder.embedding_dropout"),
        training_number("attention_dropout", f"{_ATTENTION}.dropout"),
        flag("tie_word_embeddings", "embedding.tied", default=True),
        initial_std(),
        classes_row("classifier_dropout"),
        ignored("only in training", "mlp_dropout", "sparse_prediction", "sparse_pred_ignore_index"),
        ignored("how weights start", "initializer_cutoff_factor"),
        ignored(
            "how the model computes, not the result",
            *("deterministic_flash_attn", "reference_compile", "repad_logits_with_grad"),
        ),
        ignored("nothing reads it", "position_embedding_type", "layer_norm_eps"),
    ),
    names=_NAMES,
    prefix="model.",
    absent_ids=("pad_token_id",),
)
