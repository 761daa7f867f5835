"""BERT: an encoder, with or without a head for masked words or for classes, and its pooler.

Source: Devlin et al. 2019, "BERT: Pre-training of Deep Bidirectional Transformers".
"""

from __future__ import annotations

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
ROWS: tuple[Row, ...] = (
    integer("vocab_size", "vocab_size"),
    integer("hidden_size", "d_model"),
    depth("num_hidden_layers", "encoder"),
    integer("num_attention_heads", f"{ATTENTION}.n_heads", f"{ATTENTION}.n_kv_heads"),
    computed(quotient("hidden_size", "num_attention_heads").value, f"{ATTENTION}.d_head"),
    integer("intermediate_size", f"{FEED}.d_ff"),
    activation("hidden_act", f"{FEED}.activation", f"{TRANSFORM}?.activation", default="gelu"),
    training_number("hidden_dropout_prob", "encoder.dropout", default=0.1),
    training_number("attention_probs_dropout_prob", f"{ATTENTION}.dropout", default=0.1),
    integer("max_position_embeddings", "context_length", default=512),
    initial_std(),
    number(
        "layer_norm_eps",
        "encoder.norm.eps",
        "encoder.input_norm.eps",
        f"{TRANSFORM}?.norm.eps",
        default=1e-12,
    ),
    flag("tie_word_embeddings", "embedding.tied", default=True),
)

_BLOCK, _LAYER = "encoder.blocks.{n}", "bert.encoder.layer.{n}"
_HEAD, _POOLER = "cls.predictions", "bert.pooler.dense"
_NAMES: Names = {
    "token_embedding.weight": Source("bert.embeddings.word_embeddings.weight"),
    "segment_embedding.weight": Source("bert.embeddings.token_type_embeddings.weight"),
    "encoder.positions.embedding.weight": Source("bert.embeddings.position_embeddings.weight"),
    **dict(norm("encoder.input_norm", "bert.embeddings.LayerNorm")),
    **dict(linear(f"{_BLOCK}.attention.query", f"{_LAYER}.attention.self.query")),
    **dict(linear(f"{_BLOCK}.attention.key", f"{_LAYER}.attention.self.key")),
    **dict(linear(f"{_BLOCK}.attention.value", f"{_LAYER}.attention.self.value")),
    **dict(linear(f"{_BLOCK}.attention.output", f"{_LAYER}.attention.output.dense")),
    **dict(norm(f"{_BLOCK}.attention_norm", f"{_LAYER}.attention.output.LayerNorm")),
    **dict(linear(f"{_BLOCK}.feed_forward.up", f"{_LAYER}.intermediate.dense")),
    **dict(linear(f"{_BLOCK}.feed_forward.down", f"{_LAYER}.output.dense")),
    **dict(norm(f"{_BLOCK}.feed_forward_norm", f"{_LAYER}.output.LayerNorm")),
    **dict(linear("pooler", _POOLER)),
    **dict(linear("classifier", "classifier")),
    **dict(linear("head_transform.dense", f"{_HEAD}.transform.dense")),
    **dict(norm("head_transform.norm", f"{_HEAD}.transform.LayerNorm")),
    "head.weight": Source(f"{_HEAD}.decoder.weight"),
    "head_bias": Source(f"{_HEAD}.bias"),
}


def _read_pooler(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
    classifies = tree["head"]["kind"] == "ClassificationHead"
    tree["pooler"] = classifies or f"{_POOLER}.weight" in stored.tensors
    if tree["head"]["kind"] == "NoHead":
        tree["embedding"]["tied"] = True


BERT = Family(
    model_type="bert",
    heads={
        "BertForMaskedLM": MASKED_HEAD,
        "BertModel": NO_HEAD,
        "BertForPreTraining": MASKED_HEAD,
        "BertForSequenceClassification": classification_head("first", bias=True),
    },
    skeleton=SKELETON,
    rows=(
        *ROWS,
        integer("type_vocab_size", "embedding.segments", default=2),
        Row(rules={}, read=_read_pooler),
        fixed("position_embedding_type", "absolute"),
        ignored(
            "nothing reads it",
            *("directionality", "pooler_fc_size", "pooler_num_attention_heads"),
            *("pooler_num_fc_layers", "pooler_size_per_head", "pooler_type"),
        ),
        classes_row("classifier_dropout", "hidden_dropout_prob"),
    ),
    names=_NAMES,
    prefix="bert.",
    older={"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"},
    ignored_tensors={
        r"(bert\.)?embeddings\.position_ids": "the numbers 0, 1, 2 and so on",
        r"cls\.seq_relationship\.(weight|bias)": "the next-sentence head",
    },
    copies={f"{_HEAD}.decoder.bias": f"{_HEAD}.bias"},
)
