"""ERNIE 4.5 with experts: a softmax router with a bias of the choice, and shared experts.

The layers with experts lie between a first and a last one, at intervals. Biases are everywhere but
in the experts that the router chooses, or nowhere.

Source: Baidu ERNIE Team 2025, "ERNIE 4.5 Technical Report", and its released code.
"""

from __future__ import annotations

from dataclasses import replace

from pellucid.checkpoints.huggingface.attributes import Read, Table
from pellucid.checkpoints.huggingface.families.decoders import (
    ATTENTION,
    BIASES,
    BLOCK,
    GATED,
    IGNORED_TENSORS,
    decoder_family,
    skeleton,
)
from pellucid.checkpoints.huggingface.families.glm4_moe import shared_row
from pellucid.checkpoints.huggingface.families.mixtures import (
    ACTIVATION,
    ACTIVE,
    DECODER_ROWS,
    DENSE,
    EXPERT_NAMES,
    JOINT_NAMES,
    MIXTURE,
    MLP,
    balance_row,
    mixture,
    shared_names,
    sparse_layers_row,
)
from pellucid.checkpoints.huggingface.mapping import (
    Unfit,
    fixed,
    flag,
    ignored,
    integer,
    number,
)
from pellucid.checkpoints.huggingface.names import Source
from pellucid.checkpoints.huggingface.rotary import rotary_row
from pellucid.errors import CheckpointError

_FIRST, _LAST = "moe_layer_start_index", "moe_layer_end_index"
_STEP = "moe_layer_interval"


def _is_sparse(attributes: Table, layer: int) -> bool:
    step: int = attributes[_STEP]
    if step < 1:
        raise CheckpointError(f"config.json: {_STEP} must be at least 1, was {step}")
    # -1: no layer is the last one
    is_before_end = attributes[_LAST] == -1 or layer <= attributes[_LAST]
    return layer >= attributes[_FIRST] and is_before_end and (layer + 1) % step == 0


def _describe_layers(is_sparse: list[bool]) -> Table:
    layers = [layer for layer, sparse in enumerate(is_sparse) if sparse]
    step = layers[1] - layers[0] if len(layers) > 1 else 1
    table = {_FIRST: layers[0], _LAST: layers[-1], _STEP: step}
    if is_sparse != [_is_sparse(table, layer) for layer in range(len(is_sparse))]:
        raise Unfit("mixtures of experts are at uneven intervals, but in this family at equal ones")
    return table


_BIAS = f"{BLOCK}.feed_forward.choice_bias"
ERNIE_MOE = replace(
    decoder_family(
        "ernie4_5_moe",
        "Ernie4_5_Moe",
        (
            *(row for row in DECODER_ROWS if "attention_dropout" not in row.rules),
            sparse_layers_row(
                mixture(shared=GATED, router={"normalised": True, "balancing_rate": 0.0}),
                _is_sparse,
                {_FIRST: Read(int, 1), _LAST: Read(int, -1), _STEP: Read(int, 1)},
                _describe_layers,
            ),
            integer("num_key_value_heads", f"{ATTENTION}.n_kv_heads", default=4),
            integer("intermediate_size", f"{DENSE}.d_ff", default=12288),
            integer("moe_intermediate_size", f"{MIXTURE}.expert.d_ff", default=1536),
            integer("moe_num_experts", f"{MIXTURE}.n_experts", default=64),
            integer("moe_k", ACTIVE, default=6),
            shared_row(2, "moe_num_shared_experts", optional=True),
            ACTIVATION,
            number("rms_norm_eps", "decoder.norm.eps", default=1e-5),
            flag(
                "use_bias",
                *BIASES,
                f"{DENSE}.bias",
                f"{MIXTURE}.shared?.bias",
                "head:LanguageHead.bias",
                default=False,
            ),
            flag("tie_word_embeddings", "embedding.tied", default=True),
            rotary_row(base=500_000.0, interleaved=True),
            balance_row(),
            # the sum by which weights are divided is never so small
            fixed("moe_norm_min", 1e-12),
            ignored(
                "for layers that predict further tokens, which the class does not have",
                "num_nextn_predict_layers",
            ),
            ignored(
                "for the program that trained these models",
                *("moe_capacity", "moe_gate", "moe_use_aux_free"),
            ),
        ),
        skeleton=skeleton(feed_forward={}),
        names={
            **EXPERT_NAMES,
            **shared_names("shared_experts"),
            "head_bias": Source("lm_head.bias"),
            _BIAS: Source(f"{MLP}.moe_statics.e_score_correction_bias", groups=1),
        },
        classifies=False,
        ignored_tensors={
            **IGNORED_TENSORS,
            r"model\.mtp_.*": "layers that predict further tokens, which the class does not have",
        },
    ),
    other_names={
        **JOINT_NAMES,
        _BIAS: Source(f"{MLP}.gate.moe_statics.e_score_correction_bias", groups=1),
    },
)
