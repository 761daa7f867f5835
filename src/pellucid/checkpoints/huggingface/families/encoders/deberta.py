"""DeBERTa v2 and v3, where content meets distance in the scores.

Learned positions can be added to the embedding besides. A convolution after the first layer
(deberta-v2-xlarge) is refused.

Sources: He et al. 2020, "DeBERTa"; He, Gao and Chen 2021, "DeBERTaV3".
"""

from __future__ import annotations

from typing import Any, cast

from pellucid import config
from pellucid.checkpoints.huggingface.activations import activation
from pellucid.checkpoints.huggingface.attributes import Read, Table
from pellucid.checkpoints.huggingface.classes import classes_row
from pellucid.checkpoints.huggingface.families.encoders.bert import (
    CLS_HEAD,
    HIDDEN_ACT,
    LAYER_NORM,
    MASKED_HEAD,
    POSITION_IDS,
    SIZES,
    encoder_skeleton,
    layer_rows,
    pooler_row,
)
from pellucid.checkpoints.huggingface.families.encoders.roberta import (
    transformed_classes,
    written_width,
)
from pellucid.checkpoints.huggingface.family import NO_HEAD, Family
from pellucid.checkpoints.huggingface.mapping import (
    DirectoryContents,
    Row,
    Unfit,
    attribute,
    depth,
    fixed,
    ignored,
    same_as,
    training_number,
)
from pellucid.checkpoints.huggingface.names import Names, Source, linear, norm
from pellucid.errors import CheckpointError
from pellucid.reader import short

#: The published name of each term of the scores, and its name in a config.
_TERMS = {"c2p": "content_to_position", "p2c": "position_to_content"}


def _read_terms(value: Any) -> list[str]:
    """The terms with distances, from a list or from words with bars between them."""
    words = value.lower().split("|") if isinstance(value, str) else value or []
    if not isinstance(words, list):
        raise CheckpointError(f"config.json: pos_att_type must be a list, was {short(value)}")
    terms = [str(word).strip() for word in cast("list[object]", words)]
    if unknown := sorted(set(terms) - {*_TERMS, ""}):
        raise CheckpointError(
            f"config.json: pos_att_type names {short(unknown[0])}, which is not handled; those "
            f"that are: {', '.join(_TERMS)}"
        )
    return [term for term in _TERMS if term in terms]


def _disentangled(attributes: Table, terms: list[str]) -> Table:
    buckets, furthest = attributes["position_buckets"], attributes["max_relative_positions"]
    furthest = attributes["max_position_embeddings"] if furthest < 1 else furthest
    table: Table = {
        "kind": "Disentangled",
        "n_buckets": 2 * (buckets if buckets > 0 else furthest),
        **{name: term in terms for term, name in _TERMS.items()},
        "own_projections": not attributes["share_att_key"],
    }
    if buckets > 0:
        table["max_distance"] = furthest
    if "layer_norm" in [word.strip() for word in attributes["norm_rel_ebd"].lower().split("|")]:
        table["norm"] = {**LAYER_NORM, "eps": attributes["layer_norm_eps"]}
    return table


def _scale(d_head: int, n_terms: int) -> float:
    """The scale of the scores, which grows with the number of terms even if none is added."""
    return (d_head * (1 + n_terms)) ** -0.5


def _read_positions(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
    terms, encoder = _read_terms(attributes["pos_att_type"]), tree["encoder"]
    added: Table = {"kind": "Learned"}
    biased: bool = attributes["position_biased_input"]
    for layer in encoder["layers"]:
        d_head: int = layer["attention"]["d_head"]
        if terms and d_head > 0:
            layer["attention"]["scale"] = _scale(d_head, len(terms))
        if attributes["relative_attention"] and terms:
            layer["positions"] = _disentangled(attributes, terms)
        else:
            layer["positions"] = added if biased else {"kind": "NoPositions"}
    if attributes["relative_attention"] and terms and biased:
        encoder["embedding_positions"] = added


def _write_positions(tree: Table) -> Table:
    encoder = tree["encoder"]
    scheme: Table = encoder["layers"][0]["positions"]
    if scheme["kind"] in ("Learned", "NoPositions"):
        attention: Table = encoder["layers"][0]["attention"]
        counts = (n for n in (1, 2) if attention.get("scale") == _scale(attention["d_head"], n))
        return {
            "relative_attention": False,
            "position_biased_input": scheme["kind"] == "Learned",
            "pos_att_type": list(_TERMS)[: next(counts, 0)],
        }
    if scheme["kind"] != "Disentangled":
        raise Unfit(f"encoder.positions is {scheme['kind']}, but this family has Disentangled")
    span, furthest = scheme["n_buckets"] // 2, scheme.get("max_distance")
    return {
        "relative_attention": True,
        "position_biased_input": "embedding_positions" in encoder,
        "pos_att_type": [term for term, name in _TERMS.items() if scheme[name]],
        "position_buckets": -1 if furthest is None else span,
        "max_relative_positions": span if furthest is None else furthest,
        "share_att_key": not scheme["own_projections"],
        "norm_rel_ebd": "none" if scheme.get("norm") is None else "layer_norm",
    }


_POSITIONS = Row(
    rules={
        "relative_attention": Read(bool, False),
        "position_biased_input": Read(bool, True),
        "pos_att_type": Read(object, None),
        "position_buckets": Read(int, -1),
        "max_relative_positions": Read(int, -1),
        "share_att_key": Read(bool, False),
        "norm_rel_ebd": Read(str, "none"),
    },
    read=_read_positions,
    write=_write_positions,
)


def _read_width(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
    width = attributes["embedding_size"]
    if width != tree["d_model"]:
        projection = {"kind": "EmbeddingProjection", "width": width, "bias": False}
        tree["embedding"]["projection"] = {**projection, "place": "before_norm"}


def _check_pooler(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
    width = attributes["pooler_hidden_size"]
    if tree["head"]["kind"] == "ClassificationHead" and width != tree["d_model"]:
        raise CheckpointError(
            f"config.json: pooler_hidden_size = {width} is not handled: it must be hidden_size, "
            f"{tree['d_model']}"
        )


_HEAD, _LM_HEAD = "cls.predictions", "lm_predictions.lm_head"
_BLOCK, _LAYER = "encoder.blocks.{n}", "deberta.encoder.layer.{n}"
_SELF, _BLOCK_ATTENTION = f"{_LAYER}.attention.self", f"{_BLOCK}.attention"


def _deberta_names(model: config.Transformer) -> Names:
    """The learned positions are those of the layers, or are added besides."""
    embeddings, stack = "deberta.embeddings", model.encoder
    added = stack is not None and stack.embedding_positions is not None
    scheme = "embedding_positions" if added else "positions"
    return {
        "token_embedding.weight": Source(f"{embeddings}.word_embeddings.weight"),
        "segment_embedding.weight": Source(f"{embeddings}.token_type_embeddings.weight"),
        f"encoder.{scheme}.embedding.weight": Source(f"{embeddings}.position_embeddings.weight"),
        "encoder.input_projection.weight": Source(f"{embeddings}.embed_proj.weight"),
        **dict(norm("encoder.input_norm", f"{embeddings}.LayerNorm")),
        "encoder.positions.table.weight": Source("deberta.encoder.rel_embeddings.weight"),
        **dict(norm("encoder.positions.norm", "deberta.encoder.LayerNorm")),
        **dict(linear(f"{_BLOCK_ATTENTION}.query", f"{_SELF}.query_proj")),
        **dict(linear(f"{_BLOCK_ATTENTION}.key", f"{_SELF}.key_proj")),
        **dict(linear(f"{_BLOCK_ATTENTION}.value", f"{_SELF}.value_proj")),
        **dict(linear(f"{_BLOCK_ATTENTION}.position_query", f"{_SELF}.pos_query_proj")),
        **dict(linear(f"{_BLOCK_ATTENTION}.position_key", f"{_SELF}.pos_key_proj")),
        **dict(linear(f"{_BLOCK_ATTENTION}.output", f"{_LAYER}.attention.output.dense")),
        **dict(norm(f"{_BLOCK}.attention_norm", f"{_LAYER}.attention.output.LayerNorm")),
        **dict(linear(f"{_BLOCK}.feed_forward.up", f"{_LAYER}.intermediate.dense")),
        **dict(linear(f"{_BLOCK}.feed_forward.down", f"{_LAYER}.output.dense")),
        **dict(norm(f"{_BLOCK}.feed_forward_norm", f"{_LAYER}.output.LayerNorm")),
        **CLS_HEAD.names(model),
        **dict(linear("classifier_transform.dense", "pooler.dense")),
        **dict(linear("classifier", "classifier")),
    }


DEBERTA_V2 = Family(
    model_type="deberta-v2",
    heads={
        "DebertaV2ForMaskedLM": MASKED_HEAD,
        "DebertaV2Model": NO_HEAD,
        "DebertaV2ForSequenceClassification": transformed_classes("gelu"),
    },
    skeleton=encoder_skeleton({}),
    rows=(
        *SIZES,
        depth("num_hidden_layers", "encoder"),
        *layer_rows(eps=1e-7),
        HIDDEN_ACT,
        attribute(
            "type_vocab_size",
            Read(int, 0),
            "embedding.segments",
            to_config=lambda value: value or None,
            from_config=lambda value: value or 0,
        ),
        Row(
            rules={"embedding_size": Read(int, same_as("hidden_size"))},
            read=_read_width,
            write=written_width,
        ),
        _POSITIONS,
        pooler_row(),
        activation(
            "pooler_hidden_act", "head:ClassificationHead.transform.activation", default="gelu"
        ),
        training_number("pooler_dropout", "head:ClassificationHead.input_dropout"),
        Row(rules={"pooler_hidden_size": Read(int, same_as("hidden_size"))}, read=_check_pooler),
        classes_row("cls_dropout", "hidden_dropout_prob"),
        fixed("conv_kernel_size", 0),
        ignored("read with conv_kernel_size alone", "conv_act", "conv_groups"),
        ignored("both forms of the head for words are read", "legacy"),
        ignored("nothing reads it", "summary_type", "summary_activation", "summary_use_proj"),
    ),
    names=_deberta_names,
    prefix="deberta.",
    older={
        **{
            f"{_LM_HEAD}.{part}.{leaf}": f"{_HEAD}.transform.{part}.{leaf}"
            for part in ("dense", "LayerNorm")
            for leaf in ("weight", "bias")
        },
        f"{_LM_HEAD}.bias": f"{_HEAD}.bias",
    },
    ignored_tensors={
        r"(\w+\.)?embeddings\.position_ids": POSITION_IDS,
        r"(deberta\.)?embeddings\.position_embeddings\.weight": "not read without "
        "position_biased_input",
        r"(deberta\.)?encoder\.(rel_embeddings|LayerNorm)\..*": "not read without pos_att_type",
        r"(deberta\.)?mask_predictions\..*": "the head that tells replaced tokens",
        rf"({_HEAD}|{_LM_HEAD})\..*": "the head for masked words, which this class does not read",
    },
    copies=CLS_HEAD.copies,
    repeated=CLS_HEAD.repeated,
)
