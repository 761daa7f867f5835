"""ALBERT: few layers' weights, used in turn, and an embedding narrower than the model.

Source: Lan et al. 2020, "ALBERT: A Lite BERT for Self-supervised Learning of Language
Representations".
"""

from __future__ import annotations

import copy

from pellucid import config
from pellucid.checkpoints.huggingface.activations import activation
from pellucid.checkpoints.huggingface.attributes import Read, Table
from pellucid.checkpoints.huggingface.classes import classes_row, classification_head
from pellucid.checkpoints.huggingface.families.encoders.bert import (
    FEED,
    MASKED_HEAD,
    POSITION_IDS,
    SEGMENTS,
    SIZES,
    SKELETON,
    TRANSFORM,
    MaskedHead,
    layer_rows,
    pooler_row,
)
from pellucid.checkpoints.huggingface.family import NO_HEAD, Family
from pellucid.checkpoints.huggingface.mapping import (
    DirectoryContents,
    Row,
    Unfit,
    depth,
    fixed,
    ignored,
    integer,
)
from pellucid.checkpoints.huggingface.names import Names, Source, linear, norm
from pellucid.errors import CheckpointError

_DEPTH = depth("num_hidden_layers", "encoder", default=12, shared=True)
_HEAD = MaskedHead(
    "predictions.dense", "predictions.LayerNorm", "predictions.decoder", "predictions.bias"
)
#: The most layers of a group; the depth is bounded besides.
_MOST_IN_GROUP = 100


def _read_layers(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
    inner: int = attributes["inner_group_num"]
    if not 1 <= inner <= _MOST_IN_GROUP:
        raise CheckpointError(
            f"config.json: inner_group_num must be between 1 and {_MOST_IN_GROUP}, was {inner}"
        )
    _DEPTH.read(attributes, tree, stored)
    encoder = tree["encoder"]
    encoder["layers"] = [copy.deepcopy(layer) for layer in encoder["layers"] for _ in range(inner)]
    encoder["shared_layers"] = {
        "kind": "SharedLayers",
        "groups": attributes["num_hidden_groups"],
        "layers_per_group": inner,
    }


def _write_layers(tree: Table) -> Table:
    shared: Table | None = tree["encoder"].get("shared_layers")
    if shared is None:
        raise Unfit("encoder.shared_layers is absent, but this family has it")
    inner: int = shared["layers_per_group"]
    return {
        "num_hidden_layers": len(tree["encoder"]["layers"]) // inner,
        "num_hidden_groups": shared["groups"],
        "inner_group_num": inner,
    }


def _names(model: config.Transformer) -> Names:
    """The blocks with weights of their own are the layers of the groups, one after another."""
    names: dict[str, Source] = {
        "token_embedding.weight": Source("albert.embeddings.word_embeddings.weight"),
        "segment_embedding.weight": Source("albert.embeddings.token_type_embeddings.weight"),
        "encoder.positions.embedding.weight": Source(
            "albert.embeddings.position_embeddings.weight"
        ),
        **dict(norm("encoder.input_norm", "albert.embeddings.LayerNorm")),
        **dict(linear("encoder.input_projection", "albert.encoder.embedding_hidden_mapping_in")),
        **_HEAD.names(model),
        **dict(linear("pooler", "albert.pooler")),
        **dict(linear("classifier", "classifier")),
    }
    stack = model.encoder
    shared = None if stack is None else stack.shared_layers
    if stack is None or shared is None:
        return names
    for place, owner in enumerate(sorted(set(stack.owners))):
        group, inner = divmod(place, shared.layers_per_group)
        layer = f"albert.encoder.albert_layer_groups.{group}.albert_layers.{inner}"
        block = f"encoder.blocks.{owner}"
        for name in ("query", "key", "value"):
            names |= linear(f"{block}.attention.{name}", f"{layer}.attention.{name}")
        names |= linear(f"{block}.attention.output", f"{layer}.attention.dense")
        names |= norm(f"{block}.attention_norm", f"{layer}.attention.LayerNorm")
        names |= linear(f"{block}.feed_forward.up", f"{layer}.ffn")
        names |= linear(f"{block}.feed_forward.down", f"{layer}.ffn_output")
        names |= norm(f"{block}.feed_forward_norm", f"{layer}.full_layer_layer_norm")
    return names


ALBERT = Family(
    model_type="albert",
    heads={
        "AlbertForMaskedLM": MASKED_HEAD,
        "AlbertModel": NO_HEAD,
        "AlbertForPreTraining": MASKED_HEAD,
        "AlbertForSequenceClassification": classification_head("first", bias=True),
    },
    skeleton={
        **SKELETON,
        "embedding": {
            **SKELETON["embedding"],
            "projection": {"kind": "EmbeddingProjection", "bias": True},
        },
    },
    rows=(
        *SIZES,
        integer("embedding_size", "embedding.projection.width", default=128),
        Row(
            rules={
                **_DEPTH.rules,
                "num_hidden_groups": Read(int, 1),
                "inner_group_num": Read(int, 1),
            },
            read=_read_layers,
            write=_write_layers,
        ),
        *layer_rows(dropout=0.0),
        activation(
            "hidden_act", f"{FEED}.activation", f"{TRANSFORM}?.activation", default="gelu_new"
        ),
        SEGMENTS,
        pooler_row("albert.pooler", for_classes=True),
        fixed("position_embedding_type", "absolute"),
        ignored(
            "nothing reads it",
            *("net_structure_type", "gap_size", "num_memory_blocks", "down_scale_factor"),
            *("layers_to_keep",),
        ),
        classes_row("classifier_dropout_prob"),
    ),
    names=_names,
    prefix="albert.",
    ignored_tensors={
        **_HEAD.ignored(),
        r"(\w+\.)?embeddings\.position_ids": POSITION_IDS,
        r"sop_classifier\.classifier\.(weight|bias)": "the head for the order of sentences",
    },
    copies=_HEAD.copies,
    repeated=_HEAD.repeated,
)
