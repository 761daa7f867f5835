"""BERT: an encoder, with or without a head for masked words or for classes, and its pooler.

Source: Devlin et al. 2019, "BERT: Pre-training of Deep Bidirectional Transformers".
"""

from __future__ import annotations

from pellucid import config
from pellucid.checkpoints.huggingface.attributes import FixedValue, Ignored, Read, Rules, Table
from pellucid.checkpoints.huggingface.classes import with_classes
from pellucid.checkpoints.huggingface.family import (
    WRITTEN_ACTIVATIONS,
    DirectoryContents,
    Family,
    Unfit,
    activation,
    feed_forward,
    multi_head,
    normal_start,
    std_of,
)
from pellucid.checkpoints.huggingface.names import Names, Source, linear, norm

_UNUSED = Ignored("nothing reads it")
_RULES: Rules = {
    "vocab_size": Read(int),
    "hidden_size": Read(int),
    "num_hidden_layers": Read(int),
    "num_attention_heads": Read(int),
    "intermediate_size": Read(int),
    "hidden_act": Read(str, "gelu"),
    "hidden_dropout_prob": Read(float, 0.1),
    "attention_probs_dropout_prob": Read(float, 0.1),
    "max_position_embeddings": Read(int, 512),
    "type_vocab_size": Read(int, 2),
    "initializer_range": Read(float, 0.02),
    "layer_norm_eps": Read(float, 1e-12),
    "tie_word_embeddings": Read(bool, True),
    "position_embedding_type": FixedValue("absolute"),
    **dict.fromkeys(
        (
            "directionality", "pooler_fc_size", "pooler_num_attention_heads",
            "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type",
        ),
        _UNUSED,
    ),
}  # fmt: skip

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
    **dict(linear("head_transform.dense", f"{_HEAD}.transform.dense")),
    **dict(norm("head_transform.norm", f"{_HEAD}.transform.LayerNorm")),
    "head.weight": Source(f"{_HEAD}.decoder.weight"),
    "head_bias": Source(f"{_HEAD}.bias"),
}


def _read(attributes: Table, stored: DirectoryContents) -> config.Transformer:
    n_heads: int = attributes["num_attention_heads"]
    norm = config.LayerNorm(eps=attributes["layer_norm_eps"], bias=True)
    act = activation(attributes["hidden_act"], "hidden_act")
    bare = stored.architecture == "BertModel"
    transform = config.HeadTransform(activation=act, norm=norm)
    return config.Transformer(
        vocab_size=attributes["vocab_size"],
        context_length=attributes["max_position_embeddings"],
        d_model=attributes["hidden_size"],
        embedding=config.Embedding(
            tied=bare or attributes["tie_word_embeddings"],
            scaled=False,
            segments=attributes["type_vocab_size"],
        ),
        encoder=config.Stack(
            n_layers=attributes["num_hidden_layers"],
            positions=config.Learned(),
            attention=config.MultiHead(
                n_heads=n_heads,
                n_kv_heads=n_heads,
                d_head=attributes["hidden_size"] // n_heads,
                qkv_bias=True,
                out_bias=True,
                qk_norm=None,
                dropout=attributes["attention_probs_dropout_prob"],
            ),
            feed_forward=config.MLP(
                d_ff=attributes["intermediate_size"], activation=act, bias=True
            ),
            norm=norm,
            residual=config.PostNorm(),
            final_norm=False,
            dropout=attributes["hidden_dropout_prob"],
            input_norm=norm,
        ),
        head=config.NoHead() if bare else config.LanguageHead(bias=True, transform=transform),
        pooler=f"{_POOLER}.weight" in stored.tensors,
        initialisation=normal_start(attributes["initializer_range"]),
    )


def _describe(model: config.Transformer) -> Table:
    stack = model.encoder
    if stack is None or model.decoder is not None:
        raise Unfit("decoder", "is present, but this family is an encoder only", shape=True)
    attention = multi_head(stack)
    return {
        "vocab_size": model.rows,
        "hidden_size": model.d_model,
        "num_hidden_layers": stack.n_layers,
        "num_attention_heads": attention.n_heads,
        "intermediate_size": feed_forward(stack).d_ff,
        "hidden_act": WRITTEN_ACTIVATIONS[feed_forward(stack).activation],
        "hidden_dropout_prob": stack.dropout,
        "attention_probs_dropout_prob": attention.dropout,
        "max_position_embeddings": model.context_length,
        "type_vocab_size": model.embedding.segments or 1,
        "initializer_range": std_of(model),
        "layer_norm_eps": stack.norm.eps,
        "tie_word_embeddings": model.embedding.tied,
    }


BERT = with_classes(
    Family(
        model_type="bert",
        architectures=("BertForMaskedLM", "BertModel", "BertForPreTraining"),
        rules=_RULES,
        names=_NAMES,
        read=_read,
        describe=_describe,
        architecture_of=lambda model: (
            "BertModel" if isinstance(model.head, config.NoHead) else "BertForMaskedLM"
        ),
        prefix="bert.",
        older={"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"},
        ignored_tensors={
            r"(bert\.)?embeddings\.position_ids": "the numbers 0, 1, 2 and so on",
            r"cls\.seq_relationship\.(weight|bias)": "the next-sentence head",
        },
        copies={f"{_HEAD}.decoder.bias": f"{_HEAD}.bias"},
    ),
    "BertForSequenceClassification",
    "classifier",
    pooling="first",
    bias=True,
    body="BertModel",
    dropout=("classifier_dropout", "hidden_dropout_prob"),
)
