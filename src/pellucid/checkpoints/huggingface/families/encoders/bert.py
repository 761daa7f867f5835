"""BERT and its twins: an encoder, with or without a head for words or classes, and its pooler.

Source: Devlin et al. 2019, "BERT: Pre-training of Deep Bidirectional Transformers".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from pellucid import config
from pellucid.checkpoints.huggingface.activations import activation
from pellucid.checkpoints.huggingface.attributes import Table
from pellucid.checkpoints.huggingface.classes import classes_row, classification_head
from pellucid.checkpoints.huggingface.families.decoders import initial_std, initialisation
from pellucid.checkpoints.huggingface.family import NO_HEAD, Family
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
from pellucid.checkpoints.huggingface.names import Names, Source, linear, norm

#: Paths in every layer.
ATTENTION, FEED = "encoder.layers.attention", "encoder.layers.feed_forward"
LAYER_NORM: Table = {"kind": "LayerNorm", "bias": True}
TRANSFORM = "head:LanguageHead.transform"
#: One logit per token, from states that are transformed first.
MASKED_HEAD: Table = {
    "kind": "LanguageHead",
    "bias": True,
    "transform": {"kind": "HeadTransform", "norm": LAYER_NORM},
}
#: The config of an encoder with norms after the sums.
SKELETON: Table = {
    "kind": "Transformer",
    "embedding": {"kind": "Embedding", "scaled": False},
    "encoder": {
        "kind": "Stack",
        "layers": [
            {
                "attention": {"kind": "MultiHead", "qkv_bias": True, "out_bias": True},
                "feed_forward": {"kind": "MLP", "bias": True},
                "positions": {"kind": "Learned"},
            }
        ],
        "norm": LAYER_NORM,
        "input_norm": LAYER_NORM,
        "residual": {"kind": "PostNorm"},
        "final_norm": False,
    },
    "initialisation": initialisation(),
}
#: The attributes that its relatives share.
SIZES: tuple[Row, ...] = (integer("vocab_size", "vocab_size"), integer("hidden_size", "d_model"))


def layer_rows(*, dropout: float = 0.1, eps: float = 1e-12) -> tuple[Row, ...]:
    """What each layer has, with the defaults in which the relatives differ."""
    return (
        integer("num_attention_heads", f"{ATTENTION}.n_heads", f"{ATTENTION}.n_kv_heads"),
        computed(quotient("hidden_size", "num_attention_heads").value, f"{ATTENTION}.d_head"),
        integer("intermediate_size", f"{FEED}.d_ff"),
        training_number("hidden_dropout_prob", "encoder.dropout", default=dropout),
        training_number("attention_probs_dropout_prob", f"{ATTENTION}.dropout", default=dropout),
        integer("max_position_embeddings", "context_length", default=512),
        initial_std(),
        number(
            "layer_norm_eps",
            "encoder.norm.eps",
            "encoder.input_norm?.eps",
            f"{TRANSFORM}?.norm.eps",
            default=eps,
        ),
        flag("tie_word_embeddings", "embedding.tied", default=True),
    )


ROWS: tuple[Row, ...] = (*SIZES, depth("num_hidden_layers", "encoder"), *layer_rows())
#: The activation of the feed-forward layers, and of the transform before the logits.
HIDDEN_ACT = activation(
    "hidden_act", f"{FEED}.activation", f"{TRANSFORM}?.activation", default="gelu"
)
SEGMENTS = integer("type_vocab_size", "embedding.segments", default=2)
#: The tensor that older files of all relatives have.
POSITION_IDS = "the numbers 0, 1, 2 and so on"


def encoder_skeleton(positions: Table, **extra: Any) -> Table:
    """The same config with other positions in the layers, and more parts of the stack."""
    encoder = cast("Table", SKELETON["encoder"])
    layers = [{**layer, "positions": positions} for layer in encoder["layers"]]
    return {**SKELETON, "encoder": {**encoder, "layers": layers, **extra}}


def encoder_names(prefix: str, *, segments: bool = True) -> Names:
    """The names of the embedding and the blocks.

    Args:
        prefix: what all names start with. segments: whether there are kinds of text.
    """
    block, layer, embeddings = "encoder.blocks.{n}", f"{prefix}encoder.layer.{{n}}", "embeddings"
    types = f"{prefix}{embeddings}.token_type_embeddings.weight"
    return {
        "token_embedding.weight": Source(f"{prefix}{embeddings}.word_embeddings.weight"),
        **({"segment_embedding.weight": Source(types)} if segments else {}),
        "encoder.positions.embedding.weight": Source(
            f"{prefix}{embeddings}.position_embeddings.weight"
        ),
        **dict(norm("encoder.input_norm", f"{prefix}{embeddings}.LayerNorm")),
        **dict(linear(f"{block}.attention.query", f"{layer}.attention.self.query")),
        **dict(linear(f"{block}.attention.key", f"{layer}.attention.self.key")),
        **dict(linear(f"{block}.attention.value", f"{layer}.attention.self.value")),
        **dict(linear(f"{block}.attention.output", f"{layer}.attention.output.dense")),
        **dict(norm(f"{block}.attention_norm", f"{layer}.attention.output.LayerNorm")),
        **dict(linear(f"{block}.feed_forward.up", f"{layer}.intermediate.dense")),
        **dict(linear(f"{block}.feed_forward.down", f"{layer}.output.dense")),
        **dict(norm(f"{block}.feed_forward_norm", f"{layer}.output.LayerNorm")),
    }


@dataclass(frozen=True, slots=True)
class MaskedHead:
    """The published names of a head for masked words.

    Its biases are published twice, beside the head and in the layer of its matrix. A head that is
    tied to the embedding has them once; any other reads the ones of the layer.
    """

    dense: str
    layer_norm: str
    decoder: str
    bias: str

    def names(self, model: config.Transformer) -> Names:
        """The names of its dense layer, its norm, its matrix and its biases."""
        return {
            **dict(linear("head_transform.dense", self.dense)),
            **dict(norm("head_transform.norm", self.layer_norm)),
            "head.weight": Source(f"{self.decoder}.weight"),
            "head_bias": Source(self.bias if model.embedding.tied else f"{self.decoder}.bias"),
        }

    def copies(self, model: config.Transformer) -> dict[str, str]:
        """The second biases of a tied head."""
        return {f"{self.decoder}.bias": self.bias} if model.embedding.tied else {}

    def repeated(self, model: config.Transformer) -> dict[str, str]:
        """The first biases of an untied head, which no layer reads."""
        untied = isinstance(model.head, config.LanguageHead) and not model.embedding.tied
        return {self.bias: f"{self.decoder}.bias"} if untied else {}

    def ignored(self) -> dict[str, str]:
        """The same, by their pattern."""
        return {re.escape(self.bias): "the layer of an untied head has biases of its own"}


def pooler_row(pooler: str = "", *, for_classes: bool = False) -> Row:
    """Whether there is a pooler: if the files have it, or if classes are read from it.

    Args:
        pooler: the published name; none has it without one. for_classes: whether the head for
            classes reads it.
    """

    def read(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
        kind = tree["head"]["kind"]
        if kind == "ClassificationHead":
            tree["pooler"] = for_classes
        else:
            tree["pooler"] = bool(pooler) and f"{pooler}.weight" in stored.tensors
        if kind == "NoHead":
            tree["embedding"]["tied"] = True

    return Row(rules={}, read=read)


#: As in BERT, ERNIE and DeBERTa.
CLS_HEAD = MaskedHead(
    "cls.predictions.transform.dense",
    "cls.predictions.transform.LayerNorm",
    "cls.predictions.decoder",
    "cls.predictions.bias",
)


def bert_names(prefix: str, model: config.Transformer) -> Names:
    """The names of all parts, with what they start with."""
    return {
        **encoder_names(prefix),
        **CLS_HEAD.names(model),
        **dict(linear("pooler", f"{prefix}pooler.dense")),
        **dict(linear("classifier", "classifier")),
    }


_PARTS: tuple[Row, ...] = (
    *ROWS,
    HIDDEN_ACT,
    SEGMENTS,
    fixed("position_embedding_type", "absolute"),
    classes_row("classifier_dropout", "hidden_dropout_prob"),
)
_IGNORED = {
    **CLS_HEAD.ignored(),
    r"(\w+\.)?embeddings\.position_ids": POSITION_IDS,
    r"cls\.seq_relationship\.(weight|bias)": "the next-sentence head",
}


def _bert_family(model_type: str, name: str, *rows: Row, **changes: Any) -> Family:
    """A family with the classes and the layers of BERT.

    Args:
        model_type: its name, which the tensors begin with too.
        name: what its classes begin with.
        rows: the attributes that BERT and its relatives do not share.
        changes: other fields of the family.
    """
    prefix = f"{model_type}."
    return Family(
        model_type=model_type,
        heads={
            f"{name}ForMaskedLM": MASKED_HEAD,
            f"{name}Model": NO_HEAD,
            f"{name}ForPreTraining": MASKED_HEAD,
            f"{name}ForSequenceClassification": classification_head("first", bias=True),
        },
        skeleton=SKELETON,
        rows=(*_PARTS, pooler_row(f"{prefix}pooler.dense", for_classes=True), *rows),
        names=partial(bert_names, prefix),
        prefix=prefix,
        ignored_tensors=_IGNORED,
        copies=CLS_HEAD.copies,
        repeated=CLS_HEAD.repeated,
        **changes,
    )


BERT = _bert_family(
    "bert",
    "Bert",
    ignored(
        "nothing reads it",
        *("directionality", "pooler_fc_size", "pooler_num_attention_heads"),
        *("pooler_num_fc_layers", "pooler_size_per_head", "pooler_type"),
    ),
    older={"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"},
)
ERNIE_ENCODER = _bert_family(
    "ernie",
    "Ernie",
    fixed("use_task_id", False),
    ignored("read with use_task_id alone", "task_type_vocab_size"),
)
#: The encoder of a pair; its decoder is a class of its own.
BERT_GENERATION = Family(
    model_type="bert-generation",
    heads={"BertGenerationEncoder": NO_HEAD},
    skeleton=SKELETON,
    rows=(*ROWS, HIDDEN_ACT, pooler_row(), fixed("position_embedding_type", "absolute")),
    names=encoder_names("bert.", segments=False),
    prefix="bert.",
    ignored_tensors={r"(\w+\.)?embeddings\.position_ids": POSITION_IDS},
)
