"""T5: an encoder and a decoder with bucketed biases; 1.0 with ReLU, 1.1 gated; mT5; umT5.

All layers share the first layer's table of biases; in umT5 each has its own. Scores are not scaled.

Source: Raffel et al. 2020, "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
Transformer"; 1.1 as in Shazeer 2020, "GLU Variants Improve Transformer"; Xue et al. 2021, "mT5: A
Massively Multilingual Pre-trained Text-to-Text Transformer"; Chung et al. 2023, "UniMax".
"""

from __future__ import annotations

from dataclasses import replace

from pellucid import config
from pellucid.checkpoints.huggingface.activations import ACTIVATIONS, WRITTEN_ACTIVATIONS
from pellucid.checkpoints.huggingface.attributes import Read, Table
from pellucid.checkpoints.huggingface.families.decoders import initialisation
from pellucid.checkpoints.huggingface.family import LANGUAGE_HEAD, Family
from pellucid.checkpoints.huggingface.mapping import (
    DirectoryContents,
    Row,
    choice,
    depth,
    fixed,
    ignored,
    integer,
    number,
    same_as,
    training_number,
)
from pellucid.checkpoints.huggingface.names import Names, Source, linear, norm

_STACKS = ("encoder", "decoder")
_ATTENTION: Table = {
    "kind": "MultiHead", "qkv_bias": False, "out_bias": False, "scale": 1.0,
}  # fmt: skip
#: Self-attention of both stacks, and cross-attention.
_ATTENTIONS = (*(f"{stack}.layers.attention" for stack in _STACKS), "decoder.cross_attention")
_FEEDS = tuple(f"{stack}.layers.feed_forward" for stack in _STACKS)
_POSITIONS = tuple(f"{stack}.layers.positions" for stack in _STACKS)


def _stack(*, per_layer: bool = False, **extra: object) -> Table:
    positions = {"kind": "BucketedBias", "per_layer": per_layer}
    return {
        "kind": "Stack",
        "layers": [{"attention": _ATTENTION, "feed_forward": {}, "positions": positions}],
        "norm": {"kind": "RMSNorm"},
        "residual": {"kind": "PreNorm"},
        "final_norm": True,
        **extra,
    }


def _keys(paths: tuple[str, ...], key: str) -> tuple[str, ...]:
    return tuple(f"{path}.{key}" for path in paths)


def _feed_forwards() -> dict[str, Table]:
    """What each value of feed_forward_proj means; of several for one, the written one is first."""
    names = {**{name: act for act, name in WRITTEN_ACTIVATIONS.items()}, **ACTIVATIONS}
    plain = {n: {"kind": "MLP", "activation": act, "bias": False} for n, act in names.items()}
    gated = {f"gated-{name}": {**table, "kind": "GatedMLP"} for name, table in plain.items()}
    # "gated-gelu" has always meant the approximation by tanh
    gated_gelu = {**gated.pop("gated-gelu"), "activation": "gelu_tanh"}
    return {**plain, "gated-gelu": gated_gelu, **gated}


def _read_head(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
    """In older files one attribute decides whether the head is tied and its input scaled.

    Newer files have `scale_decoder_outputs`, and always state a tied head, even if they have a
    separate matrix: so there the tensors decide.
    """
    tied: bool = attributes["tie_word_embeddings"]
    scaled: bool | None = attributes["scale_decoder_outputs"]
    tree["embedding"]["tied"] = tied if scaled is None else "lm_head.weight" not in stored.tensors
    tree["head"]["scaled"] = tied if scaled is None else scaled


def _read_mt5_head(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
    """The input of mT5's head is never scaled; the tensors decide whether it is tied.

    The newest files always state a tied head, even if they have a separate matrix.
    """
    stated: bool = attributes["tie_word_embeddings"]
    tied = "lm_head.weight" not in stored.tensors if stored.tensors else stated
    tree["embedding"]["tied"] = tied
    tree["head"]["scaled"] = False


_SIZES: tuple[Row, ...] = (
    fixed("is_encoder_decoder", True),
    integer("vocab_size", "vocab_size"),
    integer("d_model", "d_model"),
    depth("num_layers", "encoder"),
    depth("num_decoder_layers", "decoder", default=same_as("num_layers")),
    integer("num_heads", *_keys(_ATTENTIONS, "n_heads"), *_keys(_ATTENTIONS, "n_kv_heads")),
    integer("d_kv", *_keys(_ATTENTIONS, "d_head")),
)
_OTHERS: tuple[Row, ...] = (
    integer("d_ff", *_keys(_FEEDS, "d_ff")),
    integer("relative_attention_num_buckets", *_keys(_POSITIONS, "n_buckets"), default=32),
    integer("relative_attention_max_distance", *_keys(_POSITIONS, "max_distance"), default=128),
    training_number(
        "dropout_rate", *_keys(_STACKS, "dropout"), *_keys(_ATTENTIONS, "dropout"), default=0.1
    ),
    number("layer_norm_epsilon", *_keys(_STACKS, "norm.eps"), default=1e-6),
    integer("n_positions", "context_length", default=512),
    ignored("how weights start", "initializer_factor"),
    ignored("follows from feed_forward_proj", "dense_act_fn", "is_gated_act"),
)


def _rows(feed_forward: str, head: Row) -> tuple[Row, ...]:
    """The attributes, with the default of feed_forward_proj, and the row of the head."""
    feeds = choice("feed_forward_proj", _feed_forwards(), *_FEEDS, default=feed_forward)
    return (*_SIZES, feeds, *_OTHERS, head)


_TIED = Read(bool, True)


def _write_tied(tree: Table) -> Table:
    return {"tie_word_embeddings": tree["embedding"]["tied"]}


_HEAD = Row(
    rules={"tie_word_embeddings": _TIED, "scale_decoder_outputs": Read(bool, None)},
    read=_read_head,
    write=_write_tied,
)
_MT5_HEAD = Row(rules={"tie_word_embeddings": _TIED}, read=_read_mt5_head, write=_write_tied)


def _attention_names(path: str, published: str) -> Names:
    pairs = {"query": "q", "key": "k", "value": "v", "output": "o"}
    return {f"{path}.{a}.weight": Source(f"{published}.{b}.weight") for a, b in pairs.items()}


def _stack_names(name: str, *, gated: bool) -> Names:
    block, layer = f"{name}.blocks.{{n}}", f"{name}.block.{{n}}.layer"
    last = 2 if name == "decoder" else 1
    feed = f"{layer}.{last}.DenseReluDense"
    names: dict[str, Source] = {
        f"{name}.positions.table.weight": Source(
            f"{name}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        ),
        **dict(norm(f"{block}.attention_norm", f"{layer}.0.layer_norm")),
        **_attention_names(f"{block}.attention", f"{layer}.0.SelfAttention"),
        **dict(norm(f"{block}.feed_forward_norm", f"{layer}.{last}.layer_norm")),
        **dict(norm(f"{name}.final_norm", f"{name}.final_layer_norm")),
        **dict(linear(f"{block}.feed_forward.down", f"{feed}.wo")),
        **dict(linear(f"{block}.feed_forward.up", f"{feed}.{'wi_1' if gated else 'wi'}")),
        **dict(linear(f"{block}.feed_forward.gate", f"{feed}.wi_0")),
    }
    if name == "decoder":
        names |= dict(norm(f"{block}.cross_attention_norm", f"{layer}.1.layer_norm"))
        names |= _attention_names(f"{block}.cross_attention", f"{layer}.1.EncDecAttention")
    return names


def names(model: config.Transformer) -> Names:
    """The published tensor of each parameter."""
    gated = any(isinstance(stack.feed_forward, config.GatedMLP) for stack in model.stacks)
    return {
        "token_embedding.weight": Source("shared.weight"),
        "head.weight": Source("lm_head.weight"),
        **_stack_names("encoder", gated=gated),
        **_stack_names("decoder", gated=gated),
    }


def _skeleton(*, per_layer: bool = False) -> Table:
    return {
        "kind": "Transformer",
        "embedding": {"kind": "Embedding", "scaled": False},
        "encoder": _stack(per_layer=per_layer),
        "decoder": _stack(per_layer=per_layer, cross_attention=_ATTENTION),
        "initialisation": {
            **initialisation(), "weights": {"kind": "Normal", "std": 0.02}, "embedding_std": 0.02,
        },
    }  # fmt: skip


T5 = Family(
    model_type="t5",
    heads={"T5ForConditionalGeneration": LANGUAGE_HEAD, "T5WithLMHeadModel": LANGUAGE_HEAD},
    skeleton=_skeleton(),
    rows=_rows("relu", _HEAD),
    names=names,
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

MT5 = replace(
    T5,
    model_type="mt5",
    heads={"MT5ForConditionalGeneration": LANGUAGE_HEAD},
    rows=_rows("gated-gelu", _MT5_HEAD),
)


def _umt5_names(model: config.Transformer) -> Names:
    """The same, with a table of biases in each layer."""
    tables: dict[str, Source] = {}
    for stack in _STACKS:
        part = model.encoder if stack == "encoder" else model.decoder
        for layer in range(0 if part is None else part.n_layers):
            table = f"{stack}.block.{layer}.layer.0.SelfAttention.relative_attention_bias.weight"
            tables[f"{stack}.positions.schemes.{layer}.table.weight"] = Source(table)
    return {**names(model), **tables}


UMT5 = replace(
    T5,
    model_type="umt5",
    heads={"UMT5ForConditionalGeneration": LANGUAGE_HEAD},
    skeleton=_skeleton(per_layer=True),
    rows=(*_rows("gated-gelu", _HEAD), ignored("nothing reads it", "scalable_attention")),
    names=_umt5_names,
)
