"""T5: an encoder and a decoder with bucketed biases; 1.0 with ReLU, 1.1 gated and untied.

All layers share the first layer's table of biases. Scores are not scaled.

Source: Raffel et al. 2020, "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
Transformer"; 1.1 as in Shazeer 2020, "GLU Variants Improve Transformer".
"""

from __future__ import annotations

from pellucid import config
from pellucid.checkpoints.huggingface.attributes import FixedValue, Ignored, Read, Rules, Table
from pellucid.checkpoints.huggingface.family import (
    WRITTEN_ACTIVATIONS,
    DirectoryContents,
    Family,
    Unfit,
    activation,
    feed_forward,
    multi_head,
    normal_start,
)
from pellucid.checkpoints.huggingface.names import Names, Source, linear, norm
from pellucid.errors import CheckpointError

_DERIVED = Ignored("follows from feed_forward_proj")
_RULES: Rules = {
    "is_encoder_decoder": FixedValue(True),
    "vocab_size": Read(int),
    "d_model": Read(int),
    "d_kv": Read(int),
    "d_ff": Read(int),
    "num_layers": Read(int),
    "num_decoder_layers": Read(int, None),
    "num_heads": Read(int),
    "relative_attention_num_buckets": Read(int, 32),
    "relative_attention_max_distance": Read(int, 128),
    "dropout_rate": Read(float, 0.1),
    "layer_norm_epsilon": Read(float, 1e-6),
    "feed_forward_proj": Read(str, "relu"),
    "tie_word_embeddings": Read(bool, True),
    "scale_decoder_outputs": Read(bool, None),
    "n_positions": Read(int, 512),
    "initializer_factor": Ignored("how weights start"),
    "dense_act_fn": _DERIVED,
    "is_gated_act": _DERIVED,
}


def _stack_names(stack: str, *, decoder: bool) -> Names:
    block, layer = f"{stack}.blocks.{{n}}", f"{stack}.block.{{n}}.layer"
    feed = f"{layer}.{2 if decoder else 1}"
    names: dict[str, Source] = {
        f"{stack}.positions.table.weight": Source(
            f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        ),
        **dict(norm(f"{block}.attention_norm", f"{layer}.0.layer_norm")),
        **_attention_names(f"{block}.attention", f"{layer}.0.SelfAttention"),
        **dict(norm(f"{block}.feed_forward_norm", f"{feed}.layer_norm")),
        **dict(norm(f"{stack}.final_norm", f"{stack}.final_layer_norm")),
        **dict(linear(f"{block}.feed_forward.down", f"{feed}.DenseReluDense.wo")),
    }
    if decoder:
        names |= dict(norm(f"{block}.cross_attention_norm", f"{layer}.1.layer_norm"))
        names |= _attention_names(f"{block}.cross_attention", f"{layer}.1.EncDecAttention")
    return names


def _attention_names(path: str, published: str) -> Names:
    pairs = {"query": "q", "key": "k", "value": "v", "output": "o"}
    return {f"{path}.{a}.weight": Source(f"{published}.{b}.weight") for a, b in pairs.items()}


def _feed_names(part: str, published: str) -> Names:
    return {
        f"{stack}.blocks.{{n}}.feed_forward.{part}.weight": Source(
            f"{stack}.block.{{n}}.layer.{layer}.DenseReluDense.{published}.weight"
        )
        for stack, layer in (("encoder", 1), ("decoder", 2))
    }


def _read(attributes: Table, stored: DirectoryContents) -> config.Transformer:
    gate, _, act = attributes["feed_forward_proj"].rpartition("-")
    if gate not in ("", "gated"):
        raise CheckpointError(
            f"config.json: feed_forward_proj = {attributes['feed_forward_proj']!r} is not handled: "
            "it is an activation, or gated- and an activation"
        )
    # "gated-gelu" has always meant the approximation by tanh
    act = "gelu_new" if gate and act == "gelu" else act
    d_ff, act = attributes["d_ff"], activation(act, "feed_forward_proj")
    feed: config.FeedForward = (
        config.GatedMLP(d_ff=d_ff, activation=act, bias=False)
        if gate
        else config.MLP(d_ff=d_ff, activation=act, bias=False)
    )
    n_layers: int = attributes["num_layers"]
    n_more: int | None = attributes["num_decoder_layers"]
    tied, scaled = _head(attributes, stored)
    return config.Transformer(
        vocab_size=attributes["vocab_size"],
        context_length=attributes["n_positions"],
        d_model=attributes["d_model"],
        embedding=config.Embedding(tied=tied, scaled=False),
        encoder=_stack(attributes, n_layers, feed, crossed=False),
        decoder=_stack(attributes, n_layers if n_more is None else n_more, feed, crossed=True),
        head=config.LanguageHead(scaled=scaled),
        initialisation=normal_start(0.02),
    )


def _head(attributes: Table, stored: DirectoryContents) -> tuple[bool, bool]:
    """Whether the head is tied, and whether its input is scaled.

    In older files one attribute decides both. Newer files have `scale_decoder_outputs`, and always
    state a tied head, even if they have a separate matrix: so there the tensors decide.
    """
    scaled: bool | None = attributes["scale_decoder_outputs"]
    if scaled is None:
        return attributes["tie_word_embeddings"], attributes["tie_word_embeddings"]
    return "lm_head.weight" not in stored.tensors, scaled


def _stack(
    attributes: Table, n_layers: int, feed: config.FeedForward, *, crossed: bool
) -> config.Stack:
    attention = config.MultiHead(
        n_heads=attributes["num_heads"],
        n_kv_heads=attributes["num_heads"],
        d_head=attributes["d_kv"],
        qkv_bias=False,
        out_bias=False,
        qk_norm=None,
        dropout=attributes["dropout_rate"],
        scale=1.0,
    )
    return config.Stack(
        n_layers=n_layers,
        positions=config.BucketedBias(
            n_buckets=attributes["relative_attention_num_buckets"],
            max_distance=attributes["relative_attention_max_distance"],
        ),
        attention=attention,
        feed_forward=feed,
        norm=config.RMSNorm(eps=attributes["layer_norm_epsilon"]),
        residual=config.PreNorm(),
        final_norm=True,
        dropout=attributes["dropout_rate"],
        cross_attention=attention if crossed else None,
    )


def _describe(model: config.Transformer) -> Table:
    encoder, decoder = model.encoder, model.decoder
    if encoder is None or decoder is None:
        raise Unfit("encoder and decoder", "are not both present", shape=True)
    if not isinstance(encoder.positions, config.BucketedBias):
        kind = type(encoder.positions).__name__
        raise Unfit("positions", f"is {kind}, but this family has BucketedBias")
    attention, feed = multi_head(encoder), feed_forward(encoder)
    act = WRITTEN_ACTIVATIONS[feed.activation]
    if isinstance(feed, config.GatedMLP):
        act = "gated-gelu" if feed.activation == "gelu_tanh" else f"gated-{act}"
    return {
        "is_encoder_decoder": True,
        "vocab_size": model.rows,
        "d_model": model.d_model,
        "d_kv": attention.d_head,
        "d_ff": feed.d_ff,
        "num_layers": encoder.n_layers,
        "num_decoder_layers": decoder.n_layers,
        "num_heads": attention.n_heads,
        "relative_attention_num_buckets": encoder.positions.n_buckets,
        "relative_attention_max_distance": encoder.positions.max_distance,
        "dropout_rate": encoder.dropout,
        "layer_norm_epsilon": encoder.norm.eps,
        "feed_forward_proj": act,
        "tie_word_embeddings": model.embedding.tied,
        "n_positions": model.context_length,
    }


T5 = Family(
    model_type="t5",
    architectures=("T5ForConditionalGeneration", "T5WithLMHeadModel"),
    rules=_RULES,
    names={
        "token_embedding.weight": Source("shared.weight"),
        "head.weight": Source("lm_head.weight"),
        **_stack_names("encoder", decoder=False),
        **_stack_names("decoder", decoder=True),
        **_feed_names("up", "wi"),
    },
    names_when_gated={**_feed_names("gate", "wi_0"), **_feed_names("up", "wi_1")},
    read=_read,
    describe=_describe,
    ignored_tensors={
        r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight": (
            "a table of early files that nothing reads"
        ),
    },
    copies={
        "encoder.embed_tokens.weight": "shared.weight",
        "decoder.embed_tokens.weight": "shared.weight",
    },
)
