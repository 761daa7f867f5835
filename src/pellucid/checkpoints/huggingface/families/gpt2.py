"""GPT, GPT-2 and GPT-BigCode: one matrix has queries, keys and values.

The two first store every matrix as (in, out). GPT has norms after its layers, and none at the end.
GPT-BigCode can have one head of keys for all queries.

Source: Radford et al. 2018, "Improving Language Understanding by Generative Pre-Training"; Radford
et al. 2019, "Language Models are Unsupervised Multitask Learners"; Ben Allal et al. 2023,
"SantaCoder: don't reach for the stars!".
"""

from __future__ import annotations

from pellucid import config
from pellucid.checkpoints.huggingface.activations import activation
from pellucid.checkpoints.huggingface.attributes import Derived, Read, Table
from pellucid.checkpoints.huggingface.classes import classes_row, classification_head
from pellucid.checkpoints.huggingface.config_tree import set_values, values_at
from pellucid.checkpoints.huggingface.families.decoders import (
    ATTENTION,
    FEED,
    decoder_family,
    dropout_row,
    initial_std,
    initialisation,
    skeleton,
)
from pellucid.checkpoints.huggingface.family import LANGUAGE_HEAD, NO_HEAD, Family
from pellucid.checkpoints.huggingface.mapping import (
    DirectoryContents,
    Row,
    choice,
    computed,
    depth,
    flag,
    ignored,
    integer,
    number,
    quotient,
    training_number,
)
from pellucid.checkpoints.huggingface.names import (
    Names,
    Source,
    fused,
    linear,
    norm,
    untransposed,
)

#: The attributes that all share.
_SHARED: tuple[Row, ...] = (
    integer("vocab_size", "vocab_size"),
    ignored("repeats n_positions", "n_ctx"),
    integer("n_embd", "d_model"),
    depth("n_layer", "decoder"),
    integer("n_head", f"{ATTENTION}.n_heads", f"{ATTENTION}.n_kv_heads"),
    computed(quotient("n_embd", "n_head").value, f"{ATTENTION}.d_head"),
    dropout_row("resid_pdrop", "embd_pdrop", default=0.1),
    training_number("attn_pdrop", f"{ATTENTION}.dropout", default=0.1),
    number("layer_norm_epsilon", "decoder.norm.eps", default=1e-5),
    initial_std(),
    flag("tie_word_embeddings", "embedding.tied", default=True),
    ignored(
        "for the heads of other tasks",
        *("summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels"),
        "summary_first_dropout",
    ),
)
#: The attributes that GPT-2 and GPT-BigCode share.
_GPT2_SHARED: tuple[Row, ...] = (
    *_SHARED,
    integer("n_positions", "context_length", default=1024),
    integer(
        "n_inner", f"{FEED}.d_ff", default=Derived("4 * n_embd", lambda table: 4 * table["n_embd"])
    ),
    choice("scale_attn_weights", {True: None, False: 1.0}, f"{ATTENTION}.scale", default=True),
)
_ROWS: tuple[Row, ...] = (
    *_GPT2_SHARED,
    activation(
        "activation_function",
        f"{FEED}.activation",
        default="gelu_new",
        other_names={"gelu_tanh": "gelu_new"},
    ),
    flag("scale_attn_by_inverse_layer_idx", f"{ATTENTION}.scale_by_layer", default=False),
    ignored("the same products in another order", "reorder_and_upcast_attn"),
    classes_row(),
)

_BLOCK, _LAYER = "decoder.blocks.{n}", "transformer.h.{n}"
_NAMES: Names = {
    "token_embedding.weight": Source("transformer.wte.weight"),
    "decoder.positions.embedding.weight": Source("transformer.wpe.weight"),
    "head.weight": Source("lm_head.weight"),
    **dict(linear("classifier", "score")),
    **dict(norm("decoder.final_norm", "transformer.ln_f")),
    **dict(norm(f"{_BLOCK}.attention_norm", f"{_LAYER}.ln_1")),
    **dict(norm(f"{_BLOCK}.feed_forward_norm", f"{_LAYER}.ln_2")),
    **dict(
        fused(
            f"{_BLOCK}.attention",
            ("query", "key", "value"),
            f"{_LAYER}.attn.c_attn",
            transposed=True,
        )
    ),
    **dict(linear(f"{_BLOCK}.attention.output", f"{_LAYER}.attn.c_proj", transposed=True)),
    **dict(linear(f"{_BLOCK}.feed_forward.up", f"{_LAYER}.mlp.c_fc", transposed=True)),
    **dict(linear(f"{_BLOCK}.feed_forward.down", f"{_LAYER}.mlp.c_proj", transposed=True)),
}

_MASK = {r".*\.attn\.(bias|masked_bias)": "the causal mask"}


def _skeleton(*, final_norm: bool = True) -> Table:
    table = skeleton(
        attention={"qkv_bias": True, "out_bias": True},
        feed_forward={"kind": "MLP", "bias": True},
        norm={"kind": "LayerNorm", "bias": True},
        residual="PreNorm" if final_norm else "PostNorm",
        positions={"kind": "Learned"},
        initialisation=initialisation("depth_scaled"),
    )
    table["decoder"]["final_norm"] = final_norm
    return table


GPT2 = Family(
    model_type="gpt2",
    heads={
        "GPT2LMHeadModel": LANGUAGE_HEAD,
        "GPT2Model": NO_HEAD,
        "GPT2ForSequenceClassification": classification_head("last", bias=False),
    },
    skeleton=_skeleton(),
    rows=_ROWS,
    names=_NAMES,
    prefix="transformer.",
    ignored_tensors=_MASK,
)

#: The activations by the names of this family: its GELU is the approximation.
_OLD_ACTIVATIONS = {"relu": "relu", "gelu": "gelu_tanh", "silu": "silu", "swish": "silu"}
OPENAI_GPT = Family(
    model_type="openai-gpt",
    heads={
        "OpenAIGPTLMHeadModel": LANGUAGE_HEAD,
        "OpenAIGPTModel": NO_HEAD,
        "OpenAIGPTForSequenceClassification": classification_head("last", bias=False),
    },
    skeleton=_skeleton(final_norm=False),
    rows=(
        *_SHARED,
        integer("n_positions", "context_length", default=512),
        computed(lambda attributes: 4 * attributes["n_embd"], f"{FEED}.d_ff"),
        choice("afn", _OLD_ACTIVATIONS, f"{FEED}.activation", default="gelu"),
        ignored("nothing reads it", "n_special", "predict_special_tokens"),
        classes_row(),
    ),
    names={
        **_NAMES,
        "token_embedding.weight": Source("transformer.tokens_embed.weight"),
        "decoder.positions.embedding.weight": Source("transformer.positions_embed.weight"),
    },
    prefix="transformer.",
    ignored_tensors={
        **_MASK,
        r"(transformer\.)?position_ids": "the numbers 0, 1, 2 and so on",
    },
)


def _read_keys(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
    n_keys = 1 if attributes["multi_query"] else attributes["n_head"]
    set_values(tree, f"{ATTENTION}.n_kv_heads", n_keys)


def _write_keys(tree: Table) -> Table:
    return {"multi_query": values_at(tree, f"{ATTENTION}.n_kv_heads")[0] == 1}


def _bigcode_names(model: config.Transformer) -> Names:
    """Queries, keys and values come head by head, unless all queries have the same keys."""
    decoder = model.decoder
    by_head = decoder is not None and any(
        isinstance(layer, config.MultiHead) and layer.n_kv_heads > 1 for layer in decoder.pattern
    )
    return {
        **untransposed(_NAMES),
        **dict(
            fused(
                f"{_BLOCK}.attention",
                ("query", "key", "value"),
                f"{_LAYER}.attn.c_attn",
                groups="heads" if by_head else "one",
            )
        ),
    }


GPT_BIGCODE = decoder_family(
    "gpt_bigcode",
    "GPTBigCode",
    (
        *(row for row in _GPT2_SHARED if "n_head" not in row.rules),
        integer("n_head", f"{ATTENTION}.n_heads"),
        Row(rules={"multi_query": Read(bool, True)}, read=_read_keys, write=_write_keys),
        activation("activation_function", f"{FEED}.activation", default="gelu_pytorch_tanh"),
        ignored("follows from multi_query", "num_key_value_heads"),
        ignored(
            "the same products in another precision or order",
            *("attention_softmax_in_fp32", "scale_attention_softmax_in_fp32"),
            *("inference_runner", "pre_allocate_kv_cache", "validate_runner_input"),
            "max_sequence_length",
            "max_batch_size",
            "pad_key_length",
        ),
    ),
    skeleton=_skeleton(),
    names=_bigcode_names,
    prefix="transformer.",
    ignored_tensors=_MASK,
)
