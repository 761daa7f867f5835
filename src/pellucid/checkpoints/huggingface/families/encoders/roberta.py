"""RoBERTa and other encoders whose head for classes has a dense layer of its own.

roberta, xlm-roberta, camembert, data2vec-text   positions begin behind the padding id; tanh before
                                                 the classes
electra                           the embedding can be narrower than the model; GELU before classes
distilbert                        no segments, no pooler; ReLU before the classes

Sources: Liu et al. 2019, "RoBERTa"; Conneau et al. 2020, "Unsupervised Cross-lingual Representation
Learning at Scale"; Martin et al. 2020, "CamemBERT"; Clark et al. 2020, "ELECTRA";
Sanh et al. 2019, "DistilBERT"; Baevski et al. 2022, "data2vec".
"""

from __future__ import annotations

import re
from typing import Any

from pellucid import config
from pellucid.checkpoints.huggingface.activations import activation
from pellucid.checkpoints.huggingface.attributes import Read, Table
from pellucid.checkpoints.huggingface.classes import classes_row, classification_head
from pellucid.checkpoints.huggingface.config_tree import set_values, values_at
from pellucid.checkpoints.huggingface.families.decoders import initial_std
from pellucid.checkpoints.huggingface.families.encoders.bert import (
    ATTENTION,
    FEED,
    LAYER_NORM,
    POSITION_IDS,
    ROWS,
    SEGMENTS,
    SKELETON,
    TRANSFORM,
    MaskedHead,
    encoder_names,
    pooler_row,
)
from pellucid.checkpoints.huggingface.family import NO_HEAD, Family
from pellucid.checkpoints.huggingface.mapping import (
    DirectoryContents,
    Row,
    Unfit,
    computed,
    depth,
    fixed,
    flag,
    ignored,
    integer,
    quotient,
    training_number,
)
from pellucid.checkpoints.huggingface.names import Names, Source, linear, norm

_FEED_ACT = activation("hidden_act", f"{FEED}.activation", default="gelu")
_UNREAD_POOLER = "the pooler, which the head does not read"


def masked_head(act: str | None = "gelu", **layer_norm: Any) -> Table:
    """One logit per token, from states that are transformed first by this activation."""
    transform = {"kind": "HeadTransform", "norm": {**LAYER_NORM, **layer_norm}}
    if act is not None:
        transform["activation"] = act
    return {"kind": "LanguageHead", "bias": True, "transform": transform}


def transformed_classes(act: str) -> Table:
    """One logit per class, from the first token's state through a dense layer."""
    transform = {"kind": "HeadTransform", "activation": act}
    return {**classification_head("first", bias=True), "transform": transform}


def _same_dropout(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
    if tree["head"]["kind"] == "ClassificationHead":
        tree["head"]["input_dropout"] = tree["head"]["dropout"]


#: The dropout before the head's matrix is before its dense layer too.
SAME_DROPOUT = Row(rules={}, read=_same_dropout)


def padded_positions(path: str, padding_id: int | None = None) -> Row:
    """Positions that begin behind the padding id: the table has as many rows more.

    Args:
        path: of the positions in the config. padding_id: the same in every model; None if
            `pad_token_id` says it.
    """

    def read(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
        offset = 1 + (attributes["pad_token_id"] if padding_id is None else padding_id)
        set_values(tree, f"{path}.offset", offset)
        tree["context_length"] = attributes["max_position_embeddings"] - offset

    def write(tree: Table) -> Table:
        offset = values_at(tree, f"{path}.offset")[0] or 0
        if offset < 1:
            raise Unfit(f"{path.replace('.layers.', '.')}.offset is 0, but here it is at least 1")
        ids = {"pad_token_id": offset - 1} if padding_id is None else {}
        return {"max_position_embeddings": tree["context_length"] + offset, **ids}

    ids = {"pad_token_id": Read(int, 1)} if padding_id is None else {}
    return Row(rules={"max_position_embeddings": Read(int, 512), **ids}, read=read, write=write)


#: As in RoBERTa and MPNet.
LM_HEAD = MaskedHead("lm_head.dense", "lm_head.layer_norm", "lm_head.decoder", "lm_head.bias")


def roberta_family(
    model_type: str,
    name: str,
    *rows: Row,
    prefix: str = "roberta.",
    skeleton: Table = SKELETON,
    other_names: Names | None = None,
) -> Family:
    """RoBERTa under another name.

    Args:
        model_type: its name. name: what the names of its classes start with.
        rows: its own attributes.
        prefix: what all names of tensors start with.
        skeleton: the config, if the norms have other places.
        other_names: published tensors that have other names than in RoBERTa.
    """

    def names(model: config.Transformer) -> Names:
        return {
            **encoder_names(prefix),
            **(other_names or {}),
            **LM_HEAD.names(model),
            **dict(linear("pooler", f"{prefix}pooler.dense")),
            **dict(linear("classifier_transform.dense", "classifier.dense")),
            **dict(linear("classifier", "classifier.out_proj")),
        }

    return Family(
        model_type=model_type,
        heads={
            f"{name}ForMaskedLM": masked_head(),
            f"{name}Model": NO_HEAD,
            f"{name}ForSequenceClassification": transformed_classes("tanh"),
        },
        skeleton=skeleton,
        rows=(
            *ROWS,
            _FEED_ACT,
            SEGMENTS,
            padded_positions("encoder.layers.positions"),
            pooler_row(f"{prefix}pooler.dense"),
            fixed("position_embedding_type", "absolute"),
            classes_row("classifier_dropout", "hidden_dropout_prob"),
            SAME_DROPOUT,
            *rows,
        ),
        names=names,
        prefix=prefix,
        ignored_tensors={
            **LM_HEAD.ignored(),
            r"(\w+\.)?embeddings\.position_ids": POSITION_IDS,
            rf"{re.escape(prefix)}pooler\.dense\.(weight|bias)": _UNREAD_POOLER,
        },
        copies=LM_HEAD.copies,
        repeated=LM_HEAD.repeated,
    )


ROBERTA = roberta_family("roberta", "Roberta")
XLM_ROBERTA = roberta_family("xlm-roberta", "XLMRoberta")
CAMEMBERT = roberta_family("camembert", "Camembert")
DATA2VEC_TEXT = roberta_family("data2vec-text", "Data2VecText", prefix="data2vec_text.")


def _own_head(dense: str, layer_norm: str, matrix: str) -> Names:
    """The names of a head whose biases are published once, with its matrix."""
    return {
        **dict(linear("head_transform.dense", dense)),
        **dict(norm("head_transform.norm", layer_norm)),
        "head.weight": Source(f"{matrix}.weight"),
        "head_bias": Source(f"{matrix}.bias"),
    }


def written_width(tree: Table) -> Table:
    """The width of the embedding; without a map it is the model's."""
    projection: Table = tree["embedding"].get("projection", {})
    return {"embedding_size": projection.get("width", tree["d_model"])}


def _electra_width(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
    width = attributes["embedding_size"]
    if width != tree["d_model"]:
        tree["embedding"]["projection"] = {
            "kind": "EmbeddingProjection",
            "width": width,
            "bias": True,
        }


ELECTRA = Family(
    model_type="electra",
    heads={
        "ElectraForMaskedLM": masked_head(),
        "ElectraModel": NO_HEAD,
        "ElectraForPreTraining": NO_HEAD,
        "ElectraForSequenceClassification": transformed_classes("gelu"),
    },
    skeleton=SKELETON,
    rows=(
        *ROWS,
        _FEED_ACT,
        SEGMENTS,
        Row(
            rules={"embedding_size": Read(int, 128)},
            read=_electra_width,
            write=written_width,
        ),
        pooler_row(),
        fixed("position_embedding_type", "absolute"),
        ignored(
            "nothing reads it in the classes that are handled",
            *("summary_type", "summary_use_proj", "summary_activation", "summary_last_dropout"),
        ),
        classes_row("classifier_dropout", "hidden_dropout_prob"),
        SAME_DROPOUT,
    ),
    names={
        **encoder_names("electra."),
        **dict(linear("encoder.input_projection", "electra.embeddings_project")),
        **_own_head(
            "generator_predictions.dense", "generator_predictions.LayerNorm", "generator_lm_head"
        ),
        **dict(linear("classifier_transform.dense", "classifier.dense")),
        **dict(linear("classifier", "classifier.out_proj")),
    },
    prefix="electra.",
    ignored_tensors={
        r"(\w+\.)?embeddings\.position_ids": POSITION_IDS,
        r"discriminator_predictions\..*": "the discriminator's head: whether a token was replaced",
    },
)

_EPS = {**LAYER_NORM, "eps": 1e-12}
_DISTIL_BLOCK, _DISTIL_LAYER = "encoder.blocks.{n}", "distilbert.transformer.layer.{n}"
DISTILBERT = Family(
    model_type="distilbert",
    heads={
        "DistilBertForMaskedLM": masked_head(None, eps=1e-12),
        "DistilBertModel": NO_HEAD,
        "DistilBertForSequenceClassification": transformed_classes("relu"),
    },
    skeleton={
        **SKELETON,
        "encoder": {**SKELETON["encoder"], "norm": _EPS, "input_norm": _EPS},
    },
    rows=(
        integer("vocab_size", "vocab_size", default=30522),
        integer("dim", "d_model", default=768),
        depth("n_layers", "encoder", default=6),
        integer("n_heads", f"{ATTENTION}.n_heads", f"{ATTENTION}.n_kv_heads", default=12),
        computed(quotient("dim", "n_heads").value, f"{ATTENTION}.d_head"),
        integer("hidden_dim", f"{FEED}.d_ff", default=3072),
        activation("activation", f"{FEED}.activation", f"{TRANSFORM}?.activation", default="gelu"),
        training_number("dropout", "encoder.dropout", default=0.1),
        training_number("attention_dropout", f"{ATTENTION}.dropout", default=0.1),
        integer("max_position_embeddings", "context_length", default=512),
        initial_std(),
        flag("tie_word_embeddings", "embedding.tied", default=True),
        ignored("the files have the table of positions, learned or not", "sinusoidal_pos_embds"),
        ignored("of a head for questions", "qa_dropout"),
        ignored("true in every file", "tie_weights_"),
        pooler_row(),
        classes_row("seq_classif_dropout"),
    ),
    names={
        "token_embedding.weight": Source("distilbert.embeddings.word_embeddings.weight"),
        "encoder.positions.embedding.weight": Source(
            "distilbert.embeddings.position_embeddings.weight"
        ),
        **dict(norm("encoder.input_norm", "distilbert.embeddings.LayerNorm")),
        **dict(linear(f"{_DISTIL_BLOCK}.attention.query", f"{_DISTIL_LAYER}.attention.q_lin")),
        **dict(linear(f"{_DISTIL_BLOCK}.attention.key", f"{_DISTIL_LAYER}.attention.k_lin")),
        **dict(linear(f"{_DISTIL_BLOCK}.attention.value", f"{_DISTIL_LAYER}.attention.v_lin")),
        **dict(linear(f"{_DISTIL_BLOCK}.attention.output", f"{_DISTIL_LAYER}.attention.out_lin")),
        **dict(norm(f"{_DISTIL_BLOCK}.attention_norm", f"{_DISTIL_LAYER}.sa_layer_norm")),
        **dict(linear(f"{_DISTIL_BLOCK}.feed_forward.up", f"{_DISTIL_LAYER}.ffn.lin1")),
        **dict(linear(f"{_DISTIL_BLOCK}.feed_forward.down", f"{_DISTIL_LAYER}.ffn.lin2")),
        **dict(norm(f"{_DISTIL_BLOCK}.feed_forward_norm", f"{_DISTIL_LAYER}.output_layer_norm")),
        **_own_head("vocab_transform", "vocab_layer_norm", "vocab_projector"),
        **dict(linear("classifier_transform.dense", "pre_classifier")),
        **dict(linear("classifier", "classifier")),
    },
    prefix="distilbert.",
    ignored_tensors={r"(\w+\.)?embeddings\.position_ids": POSITION_IDS},
)
