"""GPT-J and CodeGen: parallel layers behind one norm, and a head with biases.

Source: Wang and Komatsuzaki 2021, "GPT-J-6B"; Nijkamp et al. 2022, "CodeGen".
"""

from __future__ import annotations

from pellucid.checkpoints.huggingface.activations import activation
from pellucid.checkpoints.huggingface.attributes import Derived, Read, Table
from pellucid.checkpoints.huggingface.config_tree import set_values, values_at
from pellucid.checkpoints.huggingface.families.decoders import (
    ATTENTION,
    FEED,
    POSITIONS,
    decoder_family,
    dropout_row,
    initial_std,
    skeleton,
)
from pellucid.checkpoints.huggingface.mapping import (
    DirectoryContents,
    Row,
    computed,
    depth,
    flag,
    ignored,
    integer,
    number,
    quotient,
    training_number,
)
from pellucid.checkpoints.huggingface.names import Names, Source, fused, linear, norm


def _read_rotated(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
    set_values(tree, f"{POSITIONS}.n_features", attributes["rotary_dim"])


def _write_rotated(tree: Table) -> Table:
    rotated = values_at(tree, f"{POSITIONS}.n_features")[0]
    return {"rotary_dim": rotated or values_at(tree, f"{ATTENTION}.d_head")[0]}


_ROWS: tuple[Row, ...] = (
    integer("vocab_size", "vocab_size"),
    integer("n_positions", "context_length", default=2048),
    integer("n_embd", "d_model"),
    depth("n_layer", "decoder"),
    integer("n_head", f"{ATTENTION}.n_heads", f"{ATTENTION}.n_kv_heads"),
    computed(quotient("n_embd", "n_head").value, f"{ATTENTION}.d_head"),
    integer(
        "n_inner", f"{FEED}.d_ff", default=Derived("4 * n_embd", lambda table: 4 * table["n_embd"])
    ),
    activation(
        "activation_function",
        f"{FEED}.activation",
        default="gelu_new",
        other_names={"gelu_tanh": "gelu_new"},
    ),
    dropout_row("resid_pdrop", "embd_pdrop"),
    training_number("attn_pdrop", f"{ATTENTION}.dropout"),
    number("layer_norm_epsilon", "decoder.norm.eps", default=1e-5),
    initial_std(),
    flag("tie_word_embeddings", "embedding.tied", default=False),
    Row(rules={"rotary_dim": Read(int, 64)}, read=_read_rotated, write=_write_rotated),
    ignored("repeats n_positions", "n_ctx"),
    ignored("no effect on the numbers", "rotary", "scale_attn_weights", "gradient_checkpointing"),
    ignored(
        "for the heads of other tasks",
        *("summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels"),
        "summary_first_dropout",
    ),
)
_SKELETON = skeleton(
    feed_forward={"kind": "MLP", "bias": True},
    norm={"kind": "LayerNorm", "bias": True},
    residual={"kind": "Parallel", "shared_norm": True},
    positions={"kind": "Rotary", "base": 10_000.0, "pairing": "interleaved"},
)
_BLOCK, _LAYER = "decoder.blocks.{n}", "transformer.h.{n}"
_NAMES: Names = {
    "token_embedding.weight": Source("transformer.wte.weight"),
    "head.weight": Source("lm_head.weight"),
    "head_bias": Source("lm_head.bias"),
    **dict(linear("classifier", "score")),
    **dict(norm("decoder.final_norm", "transformer.ln_f")),
    **dict(norm(f"{_BLOCK}.attention_norm", f"{_LAYER}.ln_1")),
    **dict(linear(f"{_BLOCK}.attention.output", f"{_LAYER}.attn.out_proj")),
    **dict(linear(f"{_BLOCK}.feed_forward.up", f"{_LAYER}.mlp.fc_in")),
    **dict(linear(f"{_BLOCK}.feed_forward.down", f"{_LAYER}.mlp.fc_out")),
}
_IGNORED_TENSORS = {
    r".*\.attn\.(bias|masked_bias|causal_mask)": "the causal mask",
    r".*embed_positions": "computed from the config",
}
_HEAD: Table = {"kind": "LanguageHead", "bias": True}

GPTJ = decoder_family(
    "gptj",
    "GPTJ",
    _ROWS,
    skeleton=_SKELETON,
    names={
        **_NAMES,
        **dict(linear(f"{_BLOCK}.attention.query", f"{_LAYER}.attn.q_proj")),
        **dict(linear(f"{_BLOCK}.attention.key", f"{_LAYER}.attn.k_proj")),
        **dict(linear(f"{_BLOCK}.attention.value", f"{_LAYER}.attn.v_proj")),
    },
    prefix="transformer.",
    head=_HEAD,
    ignored_tensors=_IGNORED_TENSORS,
)

CODEGEN = decoder_family(
    "codegen",
    "CodeGen",
    _ROWS,
    skeleton=_SKELETON,
    names={
        **_NAMES,
        # in four parts, one for each device of its training
        **dict(
            fused(
                f"{_BLOCK}.attention",
                ("query", "value", "key"),
                f"{_LAYER}.attn.qkv_proj",
                groups=4,
            )
        ),
    },
    prefix="transformer.",
    classifies=False,
    head=_HEAD,
    ignored_tensors=_IGNORED_TENSORS,
)
