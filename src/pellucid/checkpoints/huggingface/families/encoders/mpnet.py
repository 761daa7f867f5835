"""MPNet: learned positions are added to the embedding, and T5's buckets of distances to the scores.

Source: Song et al. 2020, "MPNet: Masked and Permuted Pre-training for Language Understanding".
"""

from __future__ import annotations

from pellucid import config
from pellucid.checkpoints.huggingface.activations import activation
from pellucid.checkpoints.huggingface.classes import classes_row
from pellucid.checkpoints.huggingface.families.encoders.bert import (
    FEED,
    POSITION_IDS,
    ROWS,
    encoder_skeleton,
    pooler_row,
)
from pellucid.checkpoints.huggingface.families.encoders.roberta import (
    LM_HEAD,
    SAME_DROPOUT,
    masked_head,
    padded_positions,
    transformed_classes,
)
from pellucid.checkpoints.huggingface.family import NO_HEAD, Family
from pellucid.checkpoints.huggingface.mapping import fixed
from pellucid.checkpoints.huggingface.names import Names, Source, linear, norm

_BLOCK, _LAYER = "encoder.blocks.{n}", "mpnet.encoder.layer.{n}"
_BLOCK_ATTENTION = f"{_BLOCK}.attention"


def _mpnet_names(model: config.Transformer) -> Names:
    return {
        "token_embedding.weight": Source("mpnet.embeddings.word_embeddings.weight"),
        "encoder.embedding_positions.embedding.weight": Source(
            "mpnet.embeddings.position_embeddings.weight"
        ),
        "encoder.positions.table.weight": Source("mpnet.encoder.relative_attention_bias.weight"),
        **dict(norm("encoder.input_norm", "mpnet.embeddings.LayerNorm")),
        **dict(linear(f"{_BLOCK_ATTENTION}.query", f"{_LAYER}.attention.attn.q")),
        **dict(linear(f"{_BLOCK_ATTENTION}.key", f"{_LAYER}.attention.attn.k")),
        **dict(linear(f"{_BLOCK_ATTENTION}.value", f"{_LAYER}.attention.attn.v")),
        **dict(linear(f"{_BLOCK_ATTENTION}.output", f"{_LAYER}.attention.attn.o")),
        **dict(norm(f"{_BLOCK}.attention_norm", f"{_LAYER}.attention.LayerNorm")),
        **dict(linear(f"{_BLOCK}.feed_forward.up", f"{_LAYER}.intermediate.dense")),
        **dict(linear(f"{_BLOCK}.feed_forward.down", f"{_LAYER}.output.dense")),
        **dict(norm(f"{_BLOCK}.feed_forward_norm", f"{_LAYER}.output.LayerNorm")),
        **LM_HEAD.names(model),
        **dict(linear("pooler", "mpnet.pooler.dense")),
        **dict(linear("classifier_transform.dense", "classifier.dense")),
        **dict(linear("classifier", "classifier.out_proj")),
    }


MPNET = Family(
    model_type="mpnet",
    heads={
        "MPNetForMaskedLM": masked_head(),
        "MPNetModel": NO_HEAD,
        "MPNetForSequenceClassification": transformed_classes("tanh"),
    },
    skeleton=encoder_skeleton(
        {"kind": "BucketedBias", "n_buckets": 32, "max_distance": 128},
        embedding_positions={"kind": "Learned"},
    ),
    rows=(
        classes_row("hidden_dropout_prob"),
        *ROWS,
        activation("hidden_act", f"{FEED}.activation", default="gelu"),
        padded_positions("encoder.embedding_positions", 1),
        fixed("relative_attention_num_buckets", 32),
        pooler_row("mpnet.pooler.dense"),
        SAME_DROPOUT,
    ),
    names=_mpnet_names,
    prefix="mpnet.",
    ignored_tensors={
        **LM_HEAD.ignored(),
        r"(\w+\.)?embeddings\.position_ids": POSITION_IDS,
        r"mpnet\.pooler\.dense\.(weight|bias)": "the pooler, which the head does not read",
    },
    copies=LM_HEAD.copies,
    repeated=LM_HEAD.repeated,
)
