"""GPT-NeoX and Pythia: attention and feed-forward layers in parallel, partial rotary positions.

One matrix has queries, keys and values, head by head.

Source: Black et al. 2022, "GPT-NeoX-20B"; Biderman et al. 2023, "Pythia".
"""

from __future__ import annotations

from pellucid.checkpoints.huggingface.activations import activation
from pellucid.checkpoints.huggingface.families.decoders import (
    ATTENTION,
    BIASES,
    FEED,
    HEAD_WIDTH,
    SIZES,
    decoder_family,
    skeleton,
)
from pellucid.checkpoints.huggingface.mapping import (
    choice,
    computed,
    flag,
    integer,
    number,
    same_as,
    training_number,
)
from pellucid.checkpoints.huggingface.names import Names, Source, fused, linear, norm
from pellucid.checkpoints.huggingface.rotary import rotary_row

_BLOCK, _LAYER = "decoder.blocks.{n}", "gpt_neox.layers.{n}"
_NAMES: Names = {
    "token_embedding.weight": Source("gpt_neox.embed_in.weight"),
    "head.weight": Source("embed_out.weight"),
    **dict(linear("classifier", "score")),
    **dict(norm("decoder.final_norm", "gpt_neox.final_layer_norm")),
    **dict(norm(f"{_BLOCK}.attention_norm", f"{_LAYER}.input_layernorm")),
    **dict(norm(f"{_BLOCK}.feed_forward_norm", f"{_LAYER}.post_attention_layernorm")),
    **dict(
        fused(
            f"{_BLOCK}.attention",
            ("query", "key", "value"),
            f"{_LAYER}.attention.query_key_value",
            groups="heads",
        )
    ),
    **dict(linear(f"{_BLOCK}.attention.output", f"{_LAYER}.attention.dense")),
    **dict(linear(f"{_BLOCK}.feed_forward.up", f"{_LAYER}.mlp.dense_h_to_4h")),
    **dict(linear(f"{_BLOCK}.feed_forward.down", f"{_LAYER}.mlp.dense_4h_to_h")),
}

GPT_NEOX = decoder_family(
    "gpt_neox",
    "GPTNeoX",
    (
        *SIZES,
        integer("max_position_embeddings", "context_length", default=2048),
        computed(same_as("num_attention_heads").value, f"{ATTENTION}.n_kv_heads"),
        computed(HEAD_WIDTH.value, f"{ATTENTION}.d_head"),
        activation("hidden_act", f"{FEED}.activation", default="gelu"),
        training_number("hidden_dropout", "decoder.dropout"),
        number("layer_norm_eps", "decoder.norm.eps", default=1e-5),
        flag("tie_word_embeddings", "embedding.tied", default=False),
        choice(
            "use_parallel_residual",
            {True: {"kind": "Parallel"}, False: {"kind": "PreNorm"}},
            "decoder.residual",
            default=True,
        ),
        flag("attention_bias", *BIASES, default=True),
        rotary_row(
            base="rotary_emb_base", share={"partial_rotary_factor": None, "rotary_pct": 0.25}
        ),
    ),
    skeleton=skeleton(
        feed_forward={"kind": "MLP", "bias": True},
        norm={"kind": "LayerNorm", "bias": True},
        residual=None,
    ),
    names=_NAMES,
    prefix="gpt_neox.",
    ignored_tensors={
        r".*\.attention\.(bias|masked_bias)": "the causal mask",
        r".*rotary_emb\.inv_freq": "computed from the config",
    },
)
