"""BART and its relatives: encoder-decoders with biases in every layer and one of the logits.

    BART     learned positions, norms after each layer
    mBART    learned positions, norms before each layer and at the end
    Marian   sinusoids, norms after each layer
    Pegasus  sinusoids, norms before each layer and at the end

The bias of the logits is a constant. Learned positions begin at row 2 of their table.

Source: Lewis et al. 2020, "BART: Denoising Sequence-to-Sequence Pre-training for Natural Language
Generation, Translation, and Comprehension"; Liu et al. 2020, "Multilingual Denoising Pre-training
for Neural Machine Translation"; Junczys-Dowmunt et al. 2018, "Marian: Fast Neural Machine
Translation in C++"; Zhang et al. 2020, "PEGASUS: Pre-training with Extracted Gap-sentences for
Abstractive Summarization".
"""

from __future__ import annotations

from collections.abc import Iterable

from pellucid.checkpoints.huggingface.activations import activation
from pellucid.checkpoints.huggingface.attributes import Table
from pellucid.checkpoints.huggingface.families.decoders import initial_std, initialisation
from pellucid.checkpoints.huggingface.family import NO_HEAD, Family
from pellucid.checkpoints.huggingface.mapping import (
    Row,
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

_STACKS = ("encoder", "decoder")
_NORM: Table = {"kind": "LayerNorm", "eps": 1e-5, "bias": True}
_ATTENTION: Table = {"kind": "MultiHead", "qkv_bias": True, "out_bias": True}
LEARNED: Table = {"kind": "Learned", "offset": 2}
_SINUSOIDAL: Table = {"kind": "Sinusoidal", "base": 10_000.0, "pairing": "half_split"}
_ATTENTIONS = {
    "encoder": ("encoder.layers.attention",),
    "decoder": ("decoder.layers.attention", "decoder.cross_attention"),
}
_EVERY_ATTENTION = (*_ATTENTIONS["encoder"], *_ATTENTIONS["decoder"])


def _stack(residual: str, positions: Table, **extra: object) -> Table:
    feed_forward: Table = {"kind": "MLP", "bias": True}
    return {
        "kind": "Stack",
        "layers": [{"attention": _ATTENTION, "feed_forward": feed_forward, "positions": positions}],
        "norm": _NORM,
        "residual": {"kind": residual},
        "final_norm": residual == "PreNorm",
        **extra,
    }


def _skeleton(residual: str, positions: Table, *, embedding_norm: bool) -> Table:
    norm_of_input: Table = {"input_norm": _NORM} if embedding_norm else {}
    return {
        "kind": "Transformer",
        "embedding": {"kind": "Embedding"},
        "encoder": _stack(residual, positions, **norm_of_input),
        "decoder": _stack(residual, positions, cross_attention=_ATTENTION, **norm_of_input),
        "initialisation": initialisation(),
    }


def _keys(paths: Iterable[str], *keys: str) -> tuple[str, ...]:
    return tuple(f"{path}.{key}" for path in paths for key in keys)


def _stack_rows(stack: str) -> tuple[Row, ...]:
    attentions, feed = _ATTENTIONS[stack], f"{stack}.layers.feed_forward"
    heads = f"{stack}_attention_heads"
    return (
        depth(f"{stack}_layers", stack, default=12),
        integer(heads, *_keys(attentions, "n_heads", "n_kv_heads"), default=16),
        computed(quotient("d_model", heads).value, *_keys(attentions, "d_head")),
        integer(f"{stack}_ffn_dim", f"{feed}.d_ff", default=4096),
    )


_ROWS: tuple[Row, ...] = (
    fixed("is_encoder_decoder", True),
    integer("vocab_size", "vocab_size", default=50265),
    integer("max_position_embeddings", "context_length", default=1024),
    integer("d_model", "d_model", default=1024),
    *_stack_rows("encoder"),
    *_stack_rows("decoder"),
    activation(
        "activation_function", *_keys(_STACKS, "layers.feed_forward.activation"), default="gelu"
    ),
    training_number("dropout", *_keys(_STACKS, "dropout"), default=0.1),
    training_number("attention_dropout", *_keys(_EVERY_ATTENTION, "dropout")),
    initial_std("init_std"),
    flag("scale_embedding", "embedding.scaled", default=False),
    flag("tie_word_embeddings", "embedding.tied", default=True),
    ignored("only in training", "activation_dropout", "encoder_layerdrop", "decoder_layerdrop"),
    ignored("follows from the stacks", "num_hidden_layers"),
    ignored(
        "of the library that these models were trained with",
        *("extra_pos_embeddings", "save_step", "classif_dropout"),
    ),
    ignored(
        "for sampling text, not for prediction",
        *("force_bos_token_to_be_generated", "adjust_logits_during_generation"),
    ),
)


def _attention_names(path: str, published: str) -> Names:
    pairs = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
    return {
        name: source
        for part, published_part in pairs.items()
        for name, source in linear(f"{path}.{part}", f"{published}.{published_part}")
    }


def _stack_names(stack: str) -> Names:
    block, layer = f"{stack}.blocks.{{n}}", f"model.{stack}.layers.{{n}}"
    names: dict[str, Source] = {
        f"{stack}.positions.embedding.weight": Source(f"model.{stack}.embed_positions.weight"),
        **dict(norm(f"{stack}.input_norm", f"model.{stack}.layernorm_embedding")),
        **dict(norm(f"{stack}.final_norm", f"model.{stack}.layer_norm")),
        **_attention_names(f"{block}.attention", f"{layer}.self_attn"),
        **dict(norm(f"{block}.attention_norm", f"{layer}.self_attn_layer_norm")),
        **dict(linear(f"{block}.feed_forward.up", f"{layer}.fc1")),
        **dict(linear(f"{block}.feed_forward.down", f"{layer}.fc2")),
        **dict(norm(f"{block}.feed_forward_norm", f"{layer}.final_layer_norm")),
    }
    if stack == "decoder":
        names |= _attention_names(f"{block}.cross_attention", f"{layer}.encoder_attn")
        names |= dict(norm(f"{block}.cross_attention_norm", f"{layer}.encoder_attn_layer_norm"))
    return names


_NAMES: Names = {
    "token_embedding.weight": Source("model.shared.weight"),
    "head.weight": Source("lm_head.weight"),
    "head_bias": Source("final_logits_bias", groups=1),
    **_stack_names("encoder"),
    **_stack_names("decoder"),
}


_HEAD: Table = {"kind": "LanguageHead", "bias": True, "fixed_bias": True}


def pair_family(
    model_type: str,
    stem: str,
    architecture: str,
    residual: str,
    positions: Table,
    *rows: Row,
    embedding_norm: bool,
    head: Table = _HEAD,
) -> Family:
    """A family of encoder-decoders.

    Args:
        model_type: its name. stem: of its class without a head. architecture: the class with one.
        residual: PreNorm or PostNorm, in both stacks.
        positions: of both stacks.
        rows: its own attributes.
        embedding_norm: whether the embedding has a norm.
        head: of the language model.
    """
    return Family(
        model_type=model_type,
        heads={
            architecture: head,
            f"{stem}Model": NO_HEAD,
        },
        skeleton=_skeleton(residual, positions, embedding_norm=embedding_norm),
        rows=(*_ROWS, *rows),
        names=_NAMES,
        prefix="model.",
        ignored_tensors={
            r"model\.(encoder|decoder)\.embed_positions\.weights?": "computed from the config",
            r"model\.(encoder|decoder)\.version": "of an early file",
        },
        copies={f"model.{stack}.embed_tokens.weight": "model.shared.weight" for stack in _STACKS},
        computed={
            f"{stack}.positions.table": f"model.{stack}.embed_positions.weight"
            for stack in _STACKS
            if positions is _SINUSOIDAL
        },
        zero_if_missing=frozenset({"head_bias"}),
    )


#: What early files say of BART, and of its twin PLBart.
BART_ROWS: tuple[Row, ...] = (
    fixed("normalize_before", False),
    fixed("add_final_layer_norm", False),
    fixed("add_bias_logits", False),
    fixed("normalize_embedding", True),
    fixed("static_position_embeddings", False),
)
BART = pair_family(
    "bart",
    "Bart",
    "BartForConditionalGeneration",
    "PostNorm",
    LEARNED,
    *BART_ROWS,
    embedding_norm=True,
)
MBART = pair_family(
    "mbart",
    "MBart",
    "MBartForConditionalGeneration",
    "PreNorm",
    LEARNED,
    fixed("normalize_before", True),
    fixed("add_final_layer_norm", True),
    fixed("add_bias_logits", False),
    fixed("normalize_embedding", True),
    fixed("static_position_embeddings", False),
    embedding_norm=True,
)
MARIAN = pair_family(
    "marian",
    "Marian",
    "MarianMTModel",
    "PostNorm",
    _SINUSOIDAL,
    fixed("share_encoder_decoder_embeddings", True),
    fixed("normalize_before", False),
    fixed("normalize_embedding", False),
    fixed("add_final_layer_norm", False),
    fixed("static_position_embeddings", True),
    ignored("the same as vocab_size, with shared embeddings", "decoder_vocab_size"),
    ignored("nothing reads it", "add_bias_logits"),
    embedding_norm=False,
)
PEGASUS = pair_family(
    "pegasus",
    "Pegasus",
    "PegasusForConditionalGeneration",
    "PreNorm",
    _SINUSOIDAL,
    fixed("normalize_before", True),
    fixed("add_final_layer_norm", True),
    fixed("normalize_embedding", False),
    fixed("add_bias_logits", False),
    fixed("static_position_embeddings", True),
    embedding_norm=False,
)
