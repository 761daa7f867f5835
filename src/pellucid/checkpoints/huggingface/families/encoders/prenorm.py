"""Encoders like BERT and RoBERTa, with norms before each layer and one at the end.

megatron-bert          as BERT, without a norm of the embedding
roberta-prelayernorm   as RoBERTa
xlm-roberta-xl         as RoBERTa, without a norm of the embedding

Source: Shoeybi et al. 2019, "Megatron-LM"; Ott et al. 2019, "fairseq: A Fast, Extensible Toolkit
for Sequence Modeling"; Goyal et al. 2021, "Larger-Scale Transformers for Multilingual Masked
Language Modeling".
"""

from __future__ import annotations

from dataclasses import replace

from pellucid import config
from pellucid.checkpoints.huggingface.attributes import Read, Table
from pellucid.checkpoints.huggingface.classes import classes_row
from pellucid.checkpoints.huggingface.families.encoders.bert import (
    BERT,
    HIDDEN_ACT,
    ROWS,
    SEGMENTS,
    SKELETON,
    bert_names,
    pooler_row,
)
from pellucid.checkpoints.huggingface.families.encoders.roberta import roberta_family
from pellucid.checkpoints.huggingface.mapping import Row, fixed
from pellucid.checkpoints.huggingface.names import Names, norm


def _skeleton(*, input_norm: bool) -> Table:
    encoder = {**SKELETON["encoder"], "residual": {"kind": "PreNorm"}, "final_norm": True}
    if not input_norm:
        del encoder["input_norm"]
    return {**SKELETON, "encoder": encoder}


def _norm_names(attention: str, feed_forward: str, last: str) -> Names:
    """The published names of the norms: of a layer's two, and of the last one."""
    block = "encoder.blocks.{n}"
    return {
        **dict(norm(f"{block}.attention_norm", attention)),
        **dict(norm(f"{block}.feed_forward_norm", feed_forward)),
        **dict(norm("encoder.final_norm", last)),
    }


_MEGATRON_LAYER = "bert.encoder.layer.{n}"
_MEGATRON_NORMS = _norm_names(
    f"{_MEGATRON_LAYER}.attention.ln", f"{_MEGATRON_LAYER}.ln", "bert.encoder.ln"
)


def _megatron_names(model: config.Transformer) -> Names:
    return {**bert_names("bert.", model), **_MEGATRON_NORMS}


MEGATRON_BERT = replace(
    BERT,
    model_type="megatron-bert",
    heads={name.replace("Bert", "MegatronBert"): head for name, head in BERT.heads.items()},
    skeleton=_skeleton(input_norm=False),
    rows=(
        classes_row("hidden_dropout_prob"),
        *ROWS,
        HIDDEN_ACT,
        SEGMENTS,
        fixed("position_embedding_type", "absolute"),
        pooler_row("bert.pooler.dense", for_classes=True),
    ),
    names=_megatron_names,
    older={},
)

_PRE_LAYER = "roberta_prelayernorm.encoder.layer.{n}"
ROBERTA_PRELAYERNORM = roberta_family(
    "roberta-prelayernorm",
    "RobertaPreLayerNorm",
    prefix="roberta_prelayernorm.",
    skeleton=_skeleton(input_norm=True),
    other_names=_norm_names(
        f"{_PRE_LAYER}.attention.LayerNorm",
        f"{_PRE_LAYER}.intermediate.LayerNorm",
        "roberta_prelayernorm.LayerNorm",
    ),
)
_XL_LAYER = "roberta.encoder.layer.{n}"
XLM_ROBERTA_XL = roberta_family(
    "xlm-roberta-xl",
    "XLMRobertaXL",
    Row(
        rules={
            "layer_norm_eps": Read(float, 1e-5),
            "max_position_embeddings": Read(int, 514),
            "type_vocab_size": Read(int, 1),
        }
    ),
    skeleton=_skeleton(input_norm=False),
    other_names=_norm_names(
        f"{_XL_LAYER}.attention.self_attn_layer_norm",
        f"{_XL_LAYER}.LayerNorm",
        "roberta.encoder.LayerNorm",
    ),
)
