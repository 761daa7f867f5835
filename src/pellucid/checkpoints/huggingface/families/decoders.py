"""The common part of decoders with the names and attributes that Llama introduced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from pellucid import config
from pellucid.checkpoints.huggingface.activations import activation
from pellucid.checkpoints.huggingface.attributes import Read, Rules, Table
from pellucid.checkpoints.huggingface.classes import classes_row, classification_head
from pellucid.checkpoints.huggingface.config_tree import values_at
from pellucid.checkpoints.huggingface.family import LANGUAGE_HEAD, NO_HEAD, Family
from pellucid.checkpoints.huggingface.mapping import (
    DirectoryContents,
    Row,
    depth,
    fixed,
    flag,
    integer,
    number,
    quotient,
    same_as,
    training_number,
)
from pellucid.checkpoints.huggingface.names import Names, Source, linear, norm
from pellucid.checkpoints.huggingface.rotary import rotary_row
from pellucid.errors import CheckpointError

BLOCK, LAYER = "decoder.blocks.{n}", "model.layers.{n}"
#: Paths in every layer.
ATTENTION, FEED, POSITIONS = (
    f"decoder.layers.{part}" for part in ("attention", "feed_forward", "positions")
)
BIASES = f"{ATTENTION}.qkv_bias", f"{ATTENTION}.out_bias"

NAMES: Names = {
    "token_embedding.weight": Source("model.embed_tokens.weight"),
    "head.weight": Source("lm_head.weight"),
    **dict(linear("classifier", "score")),
    **dict(norm("decoder.final_norm", "model.norm")),
    **dict(norm(f"{BLOCK}.attention_norm", f"{LAYER}.input_layernorm")),
    **dict(norm(f"{BLOCK}.feed_forward_norm", f"{LAYER}.post_attention_layernorm")),
    **dict(norm(f"{BLOCK}.attention.query_norm", f"{LAYER}.self_attn.q_norm")),
    **dict(norm(f"{BLOCK}.attention.key_norm", f"{LAYER}.self_attn.k_norm")),
    **dict(linear(f"{BLOCK}.attention.query", f"{LAYER}.self_attn.q_proj")),
    **dict(linear(f"{BLOCK}.attention.key", f"{LAYER}.self_attn.k_proj")),
    **dict(linear(f"{BLOCK}.attention.value", f"{LAYER}.self_attn.v_proj")),
    **dict(linear(f"{BLOCK}.attention.output", f"{LAYER}.self_attn.o_proj")),
    **dict(linear(f"{BLOCK}.feed_forward.gate", f"{LAYER}.mlp.gate_proj")),
    **dict(linear(f"{BLOCK}.feed_forward.up", f"{LAYER}.mlp.up_proj")),
    **dict(linear(f"{BLOCK}.feed_forward.down", f"{LAYER}.mlp.down_proj")),
}
#: Norms of a layer's input and of its output.
SANDWICH_NAMES: Names = {
    **dict(norm(f"{BLOCK}.attention_norm.before", f"{LAYER}.input_layernorm")),
    **dict(norm(f"{BLOCK}.attention_norm.after", f"{LAYER}.post_attention_layernorm")),
    **dict(norm(f"{BLOCK}.feed_forward_norm.before", f"{LAYER}.pre_feedforward_layernorm")),
    **dict(norm(f"{BLOCK}.feed_forward_norm.after", f"{LAYER}.post_feedforward_layernorm")),
}

IGNORED_TENSORS = {r".*\.rotary_emb\.inv_freq": "computed from the config"}

RMS_NORM: Table = {"kind": "RMSNorm"}
GATED: Table = {"kind": "GatedMLP", "bias": False}
MULTI_HEAD: Table = {"kind": "MultiHead", "qkv_bias": False, "out_bias": False, "dropout": 0.0}


def initialisation(outputs: str = "plain") -> Table:
    """Initial weights from one normal distribution."""
    return {"kind": "Initialisation", "weights": {"kind": "Normal"}, "outputs": outputs}


def initial_std(name: str = "initializer_range", default: float = 0.02) -> Row:
    """The standard deviation of initial weights."""
    paths = "initialisation.weights:Normal.std", "initialisation.embedding_std"
    return training_number(name, *paths, default=default)


def dropout_row(residual: str, embedding: str, default: float = 0.0) -> Row:
    """The rates of dropout of the layers' outputs and of the embedded tokens."""

    def read(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
        decoder = tree["decoder"]
        decoder["dropout"] = attributes[residual]
        if attributes[embedding] != attributes[residual]:
            decoder["embedding_dropout"] = attributes[embedding]

    def write(tree: Table) -> Table:
        rate = tree["decoder"]["dropout"]
        return {residual: rate, embedding: tree["decoder"].get("embedding_dropout", rate)}

    rules = {name: Read(float, default) for name in (residual, embedding)}
    return Row(rules=rules, read=read, write=write)


def skeleton(
    *,
    attention: Table | None = None,
    feed_forward: Table | None = None,
    norm: Table | None = None,
    residual: str | Table | None = "PreNorm",
    positions: Table | None = None,
    **extra: object,
) -> Table:
    """The config of a decoder; by default of Llama.

    Args:
        attention: changes of plain attention without biases.
        feed_forward: by default gated and without biases.
        norm: by default RMSNorm.
        residual: the kind or the table; None if a row puts it.
        positions: by default rotary.
        extra: other keys of the model.
    """
    decoder: Table = {
        "kind": "Stack",
        "layers": [
            {
                "attention": {**MULTI_HEAD, **(attention or {})},
                "feed_forward": GATED if feed_forward is None else feed_forward,
                "positions": {"kind": "Rotary"} if positions is None else positions,
            }
        ],
        "norm": RMS_NORM if norm is None else norm,
        "final_norm": True,
        "dropout": 0.0,
    }
    if residual is not None:
        decoder["residual"] = {"kind": residual} if isinstance(residual, str) else residual
    return {
        "kind": "Transformer",
        "embedding": {"kind": "Embedding", "scaled": False},
        "decoder": decoder,
        "initialisation": initialisation(),
        **extra,
    }


#: The sizes of a model.
SIZES: tuple[Row, ...] = (
    integer("vocab_size", "vocab_size"),
    integer("hidden_size", "d_model"),
    depth("num_hidden_layers", "decoder"),
    integer("num_attention_heads", f"{ATTENTION}.n_heads"),
    integer("intermediate_size", f"{FEED}.d_ff"),
    integer("max_position_embeddings", "context_length"),
    initial_std(),
    training_number("attention_dropout", f"{ATTENTION}.dropout"),
)
KEY_VALUE_HEADS = integer(
    "num_key_value_heads", f"{ATTENTION}.n_kv_heads", default=same_as("num_attention_heads")
)
#: What a missing attribute means to `transformers`, where it is not as many as there are heads.
_ABSENT_KEY_VALUE_HEADS = {
    "cwm": 8, "dots1": 32, "ernie4_5": 2, "gemma": 16, "gemma2": 4, "gemma3_text": 4, "glm": 2,
    "glm4": 2, "glm4_moe": 8, "gpt_oss": 8, "helium": 20, "internlm3": 2, "mistral": 8,
    "qwen2": 32, "qwen2_moe": 16, "qwen3": 32, "qwen3_moe": 4, "seed_oss": 8, "starcoder2": 2,
    "vaultgemma": 4,
}  # fmt: skip
#: The features of a head follow from the width.
HEAD_WIDTH = quotient("hidden_size", "num_attention_heads")
HEAD_DIM = integer("head_dim", f"{ATTENTION}.d_head", default=HEAD_WIDTH)
#: The attributes of Llama that its relatives share, without rotary positions.
ROWS: tuple[Row, ...] = (
    *SIZES,
    KEY_VALUE_HEADS,
    HEAD_DIM,
    activation("hidden_act", f"{FEED}.activation", default="silu"),
    number("rms_norm_eps", "decoder.norm.eps", default=1e-6),
    flag("tie_word_embeddings", "embedding.tied", default=False),
)
ONE_RANK = fixed("pretraining_tp", 1)


def decoder_family(
    model_type: str,
    stem: str,
    rows: tuple[Row, ...],
    *,
    skeleton: Table,
    names: Names | Callable[[config.Transformer], Names] = NAMES,
    prefix: str = "model.",
    classifies: bool = True,
    head: Table = LANGUAGE_HEAD,
    ignored_tensors: Mapping[str, str] = IGNORED_TENSORS,
    absent_ids: tuple[str, ...] = (),
) -> Family:
    """A family of decoders with the classes `stem`ForCausalLM, `stem`Model and one for classes.

    Args:
        model_type: its name.
        stem: of the names of its classes.
        rows: what its attributes mean; of two rows for an attribute the last one counts.
        skeleton: its config.
        names: the published tensor of each parameter, if need be of a given model.
        prefix: what the names start with.
        classifies: whether it has the class `stem`ForSequenceClassification.
        head: of the language model.
        ignored_tensors: patterns of tensors that have no parameter, with the reason.
        absent_ids: as `Family` explains.
    """
    heads = {f"{stem}ForCausalLM": head, f"{stem}Model": NO_HEAD}
    if classifies:
        heads[f"{stem}ForSequenceClassification"] = classification_head("last", bias=False)
    if absent := _ABSENT_KEY_VALUE_HEADS.get(model_type):
        default = replace(same_as("num_attention_heads"), absent=absent)
        rows += (integer("num_key_value_heads", f"{ATTENTION}.n_kv_heads", default=default),)
    return Family(
        model_type=model_type,
        heads=heads,
        skeleton=skeleton,
        rows=(*rows, *((classes_row(),) if classifies else ())),
        names=names,
        prefix=prefix,
        ignored_tensors=ignored_tensors,
        absent_ids=absent_ids,
    )


def windows_row(
    in_window: Callable[[Table, int], bool],
    *,
    default: int | None = 4096,
    enabled: Callable[[Table], bool] = lambda attributes: True,
    rules: Rules | None = None,
    describe: Callable[[list[int | None]], Table] = lambda windows: {},
) -> Row:
    """The layers with a sliding window.

    Args:
        in_window: without `layer_types`, whether the layer of this number has a window.
        default: the size of the window.
        enabled: whether layers have windows at all.
        rules: more attributes, which `in_window` and `enabled` read.
        describe: their values, from the window of each layer.
    """

    def read(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
        layers = tree["decoder"]["layers"]
        size = attributes["sliding_window"] if enabled(attributes) else None
        names = {False: "full_attention", True: "sliding_attention"}
        # of types that are stated, these give the number alone
        decides = size is not None and attributes["layer_types"] is None
        default_types = [names[decides and in_window(attributes, n)] for n in range(len(layers))]
        kinds = list(names.values())[: 1 if size is None else 2]
        for layer, kind in zip(layers, layer_types(attributes, default_types, kinds), strict=True):
            if kind == names[True]:
                layer["attention"]["window"] = size

    def write(tree: Table) -> Table:
        windows: list[int | None] = values_at(tree, f"{ATTENTION}.window")
        return {
            "sliding_window": next((w for w in windows if w is not None), None),
            "layer_types": [
                "full_attention" if window is None else "sliding_attention" for window in windows
            ],
            **describe(windows),
        }

    all_rules = {
        "sliding_window": Read(int, default, or_none=True),
        "layer_types": Read(list, None),
        **(rules or {}),
    }
    return Row(rules=all_rules, read=read, write=write)


def layer_types(attributes: Table, default: list[str], kinds: list[str]) -> list[str]:
    """The kind of each layer.

    Args:
        attributes: may have `layer_types`.
        default: without it, the kind of each layer.
        kinds: those that are handled.

    Raises:
        CheckpointError: a kind is not handled, or there is not one for each layer.
    """
    types: list[str] = default if attributes["layer_types"] is None else attributes["layer_types"]
    if len(types) != len(default):
        raise CheckpointError(
            f"config.json: layer_types has {len(types)} entries for {len(default)} layers"
        )
    for kind in types:
        if kind not in kinds:
            raise CheckpointError(
                f"config.json: layer_types names {kind!r}, which is not handled; those that are: "
                f"{', '.join(kinds)}"
            )
    return types


ROTARY = rotary_row()
