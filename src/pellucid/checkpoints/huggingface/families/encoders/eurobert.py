"""EuroBERT: a Llama that reads in both directions.

Classes are read from the first token's state or the mean of all; not from the mean of all tokens'
logits, which is the default of `transformers`.

Source: Boizard et al. 2025, "EuroBERT: Scaling Multilingual Encoders for European Languages".
"""

from __future__ import annotations

from pellucid.checkpoints.huggingface.activations import activation
from pellucid.checkpoints.huggingface.attributes import Read, Table
from pellucid.checkpoints.huggingface.classes import classes_row, classification_head
from pellucid.checkpoints.huggingface.families.decoders import (
    GATED,
    HEAD_WIDTH,
    IGNORED_TENSORS,
    MULTI_HEAD,
    NAMES,
    ONE_RANK,
    RMS_NORM,
    initial_std,
    initialisation,
)
from pellucid.checkpoints.huggingface.families.encoders.bert import pooler_row
from pellucid.checkpoints.huggingface.family import LANGUAGE_HEAD, NO_HEAD, Family
from pellucid.checkpoints.huggingface.mapping import (
    DirectoryContents,
    Row,
    depth,
    flag,
    integer,
    number,
    same_as,
    training_number,
)
from pellucid.checkpoints.huggingface.names import Source, linear
from pellucid.checkpoints.huggingface.rotary import rotary_row
from pellucid.errors import CheckpointError
from pellucid.reader import short

_ATTENTION, _FEED = "encoder.layers.attention", "encoder.layers.feed_forward"
_POOLING = "classifier_pooling"
_POOLINGS = {"bos": "first", "mean": "mean"}


def _read_pooling(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
    if tree["head"]["kind"] != "ClassificationHead":
        return
    pooling = attributes[_POOLING]
    if pooling not in _POOLINGS:
        raise CheckpointError(
            f"config.json: {_POOLING} = {short(pooling)} is not handled; those that are: "
            f"{', '.join(_POOLINGS)}"
        )
    tree["head"]["pooling"] = _POOLINGS[pooling]


def _write_pooling(tree: Table) -> Table:
    names = [name for name, value in _POOLINGS.items() if value == tree["head"].get("pooling")]
    return {_POOLING: names[0]} if names else {}


EUROBERT = Family(
    model_type="eurobert",
    heads={
        "EuroBertForMaskedLM": LANGUAGE_HEAD,
        "EuroBertModel": NO_HEAD,
        "EuroBertForSequenceClassification": {
            **classification_head("first", bias=True),
            "transform": {"kind": "HeadTransform", "activation": "gelu"},
        },
    },
    skeleton={
        "kind": "Transformer",
        "embedding": {"kind": "Embedding", "scaled": False},
        "encoder": {
            "kind": "Stack",
            "layers": [
                {
                    "attention": MULTI_HEAD,
                    "feed_forward": GATED,
                    "positions": {"kind": "Rotary"},
                }
            ],
            "norm": RMS_NORM,
            "residual": {"kind": "PreNorm"},
            "final_norm": True,
            "dropout": 0.0,
        },
        "initialisation": initialisation(),
    },
    rows=(
        integer("vocab_size", "vocab_size", default=128256),
        integer("hidden_size", "d_model", default=768),
        depth("num_hidden_layers", "encoder", default=12),
        integer("num_attention_heads", f"{_ATTENTION}.n_heads", default=12),
        integer(
            "num_key_value_heads",
            f"{_ATTENTION}.n_kv_heads",
            default=same_as("num_attention_heads"),
        ),
        integer("head_dim", f"{_ATTENTION}.d_head", default=HEAD_WIDTH),
        integer("intermediate_size", f"{_FEED}.d_ff", default=3072),
        integer("max_position_embeddings", "context_length", default=8192),
        activation("hidden_act", f"{_FEED}.activation", default="silu"),
        number("rms_norm_eps", "encoder.norm.eps", default=1e-5),
        flag("attention_bias", f"{_ATTENTION}.qkv_bias", f"{_ATTENTION}.out_bias", default=False),
        flag("mlp_bias", f"{_FEED}.bias", "head:LanguageHead.bias", default=False),
        flag("tie_word_embeddings", "embedding.tied", default=False),
        rotary_row("encoder"),
        training_number("attention_dropout", f"{_ATTENTION}.dropout"),
        initial_std(),
        ONE_RANK,
        pooler_row(),
        Row(rules={_POOLING: Read(str, "late")}, read=_read_pooling, write=_write_pooling),
        classes_row(),
    ),
    names={
        **{path.replace("decoder.", "encoder.", 1): source for path, source in NAMES.items()},
        "head_bias": Source("lm_head.bias"),
        **dict(linear("classifier_transform.dense", "dense")),
        **dict(linear("classifier", "classifier")),
    },
    prefix="model.",
    ignored_tensors=IGNORED_TENSORS,
    absent_ids=("pad_token_id",),
)
