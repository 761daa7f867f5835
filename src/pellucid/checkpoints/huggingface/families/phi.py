"""Phi: parallel layers behind one norm, biases everywhere; Phi-3: a Llama with fused matrices.

Phi-3's long contexts have other rotary angles for texts longer than in training.

Source: Li et al. 2023, "Textbooks Are All You Need II"; Abdin et al. 2024, "Phi-3 Technical
Report".
"""

from __future__ import annotations

from pellucid.checkpoints.huggingface.activations import activation
from pellucid.checkpoints.huggingface.attributes import Table
from pellucid.checkpoints.huggingface.families.decoders import (
    ATTENTION,
    BLOCK,
    FEED,
    HEAD_WIDTH,
    KEY_VALUE_HEADS,
    LAYER,
    NAMES,
    ROWS,
    SIZES,
    decoder_family,
    dropout_row,
    skeleton,
)
from pellucid.checkpoints.huggingface.mapping import (
    choice,
    computed,
    fixed,
    flag,
    integer,
    number,
)
from pellucid.checkpoints.huggingface.names import Names, Source, fused, linear, norm
from pellucid.checkpoints.huggingface.rotary import rotary_row

_LAYER_NORM: Table = {"kind": "LayerNorm", "bias": True}
_NO_HEAD_DIM = computed(HEAD_WIDTH.value, f"{ATTENTION}.d_head")

PHI = decoder_family(
    "phi",
    "Phi",
    (
        *SIZES,
        integer("max_position_embeddings", "context_length", default=2048),
        KEY_VALUE_HEADS,
        _NO_HEAD_DIM,
        activation("hidden_act", f"{FEED}.activation", default="gelu_new"),
        dropout_row("resid_pdrop", "embd_pdrop"),
        choice(
            "qk_layernorm", {False: None, True: _LAYER_NORM}, f"{ATTENTION}.qk_norm", default=False
        ),
        number("layer_norm_eps", "decoder.norm.eps", f"{ATTENTION}.qk_norm?.eps", default=1e-5),
        flag("tie_word_embeddings", "embedding.tied", default=False),
        rotary_row(share={"partial_rotary_factor": 0.5}),
    ),
    skeleton=skeleton(
        attention={"qkv_bias": True, "out_bias": True},
        feed_forward={"kind": "MLP", "bias": True},
        norm=_LAYER_NORM,
        residual={"kind": "Parallel", "shared_norm": True},
    ),
    names={
        **NAMES,
        "head_bias": Source("lm_head.bias"),
        **dict(norm("decoder.final_norm", "model.final_layernorm")),
        **dict(norm(f"{BLOCK}.attention.query_norm", f"{LAYER}.self_attn.q_layernorm")),
        **dict(norm(f"{BLOCK}.attention.key_norm", f"{LAYER}.self_attn.k_layernorm")),
        **dict(linear(f"{BLOCK}.attention.output", f"{LAYER}.self_attn.dense")),
        **dict(linear(f"{BLOCK}.feed_forward.up", f"{LAYER}.mlp.fc1")),
        **dict(linear(f"{BLOCK}.feed_forward.down", f"{LAYER}.mlp.fc2")),
    },
    head={"kind": "LanguageHead", "bias": True},
)

#: The gate and the other half of a gated layer in one matrix.
GATE_UP: Names = dict(fused(f"{BLOCK}.feed_forward", ("gate", "up"), f"{LAYER}.mlp.gate_up_proj"))

PHI3 = decoder_family(
    "phi3",
    "Phi3",
    (
        *(row for row in ROWS if "head_dim" not in row.rules),
        integer("max_position_embeddings", "context_length", default=4096),
        _NO_HEAD_DIM,
        number("rms_norm_eps", "decoder.norm.eps", default=1e-5),
        dropout_row("resid_pdrop", "embd_pdrop"),
        integer("sliding_window", f"{ATTENTION}.window", default=None, or_none=True),
        fixed("attention_bias", False),
        rotary_row(
            share={"partial_rotary_factor": 1.0}, original="original_max_position_embeddings"
        ),
    ),
    skeleton=skeleton(),
    names={
        **NAMES,
        **GATE_UP,
        **dict(
            fused(f"{BLOCK}.attention", ("query", "key", "value"), f"{LAYER}.self_attn.qkv_proj")
        ),
    },
)
