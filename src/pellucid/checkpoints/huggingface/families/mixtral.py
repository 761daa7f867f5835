"""Decoders with a softmax router: Mixtral, Qwen 2 and 3 MoE, OLMoE and FlexOlmo.

Mixtral normalises the weights of the chosen experts, the others where they say so. Qwen 2 MoE has a
layer that every token uses, with a gate. In both Qwens some layers can be dense. FlexOlmo is an
OLMoE with norms after attention and feed-forward.

Source: Jiang et al. 2024, "Mixtral of Experts"; Yang et al. 2024, "Qwen2 Technical Report"; Yang et
al. 2025, "Qwen3 Technical Report"; Muennighoff et al. 2024, "OLMoE"; Shi et al. 2025, "FlexOlmo".
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pellucid.checkpoints.huggingface.attributes import Read, Table
from pellucid.checkpoints.huggingface.config_tree import set_values, values_at
from pellucid.checkpoints.huggingface.families.decoders import (
    ATTENTION,
    BIASES,
    BLOCK,
    GATED,
    HEAD_WIDTH,
    LAYER,
    NAMES,
    RMS_NORM,
    ROTARY,
    decoder_family,
    skeleton,
)
from pellucid.checkpoints.huggingface.families.llama import OUTPUT_NORMS, QWEN2, qwen_windows
from pellucid.checkpoints.huggingface.families.mixtures import (
    ACTIVATION,
    ACTIVE,
    DECODER_ROWS,
    DENSE,
    EXPERT_NAMES,
    FEED_ATTRIBUTES,
    JOINT_NAMES,
    MIXTURE,
    MLP,
    NORMALISED,
    balance_row,
    expert_names,
    mixture,
    shared_names,
    sparse_layers_row,
)
from pellucid.checkpoints.huggingface.mapping import (
    DirectoryContents,
    Row,
    Unfit,
    computed,
    flag,
    ignored,
    integer,
    number,
)
from pellucid.checkpoints.huggingface.names import linear
from pellucid.checkpoints.huggingface.rotary import rotary_row
from pellucid.errors import CheckpointError


def _is_qwen_sparse(attributes: Table, layer: int) -> bool:
    dense: list[Any] = attributes["mlp_only_layers"] or []
    step: int = attributes["decoder_sparse_step"]
    return layer not in dense and step > 0 and (layer + 1) % step == 0


def _qwen_layers(sparse: Table) -> Row:
    return sparse_layers_row(
        sparse,
        _is_qwen_sparse,
        {"mlp_only_layers": Read(list, None), "decoder_sparse_step": Read(int, 1)},
        lambda is_sparse: {
            "mlp_only_layers": [n for n, sparse in enumerate(is_sparse) if not sparse],
            "decoder_sparse_step": 1,
        },
    )


_SPARSE = f"{LAYER}.block_sparse_moe"
MIXTRAL = replace(
    decoder_family(
        "mixtral",
        "Mixtral",
        (
            *DECODER_ROWS,
            ACTIVATION,
            ROTARY,
            number("rms_norm_eps", "decoder.norm.eps", default=1e-5),
            integer("sliding_window", f"{ATTENTION}.window", default=None, or_none=True),
            integer("num_key_value_heads", f"{ATTENTION}.n_kv_heads", default=8),
            integer("intermediate_size", f"{MIXTURE}.expert.d_ff"),
            integer("num_local_experts", f"{MIXTURE}.n_experts", default=8),
            integer("num_experts_per_tok", ACTIVE, default=2),
            balance_row(),
            ignored("noise of the training", "router_jitter_noise"),
        ),
        skeleton=skeleton(feed_forward=mixture(router={"normalised": True})),
        names={
            **NAMES,
            **dict(expert_names(f"{_SPARSE}.experts", "w1", "w3", "w2")),
            **dict(linear(f"{BLOCK}.feed_forward.router", f"{_SPARSE}.gate")),
        },
    ),
    other_names={**JOINT_NAMES, **dict(linear(f"{BLOCK}.feed_forward.router", f"{MLP}.gate"))},
)

_QWEN2_MIXTURE = mixture(shared=GATED, shared_gate=True)
QWEN2_MOE = replace(
    decoder_family(
        "qwen2_moe",
        "Qwen2Moe",
        (
            *(
                row
                for row in QWEN2.rows
                if not any(name in row.rules for name in (*FEED_ATTRIBUTES, "sliding_window"))
            ),
            # unlike in Qwen 2, every other one of the first layers
            qwen_windows(
                lambda attributes, layer: layer % 2 == 0 and layer < attributes["max_window_layers"]
            ),
            _qwen_layers(_QWEN2_MIXTURE),
            ACTIVATION,
            flag("qkv_bias", f"{ATTENTION}.qkv_bias", default=True),
            integer("intermediate_size", f"{DENSE}.d_ff", default=5632),
            integer("moe_intermediate_size", f"{MIXTURE}.expert.d_ff", default=1408),
            integer("shared_expert_intermediate_size", f"{MIXTURE}.shared.d_ff", default=5632),
            integer("num_experts", f"{MIXTURE}.n_experts", default=60),
            integer("num_experts_per_tok", ACTIVE, default=4),
            flag("norm_topk_prob", NORMALISED, default=False),
            balance_row(),
        ),
        skeleton=skeleton(feed_forward={}),
        names={
            **EXPERT_NAMES,
            **shared_names("shared_expert"),
            **dict(linear(f"{BLOCK}.feed_forward.shared_gate", f"{MLP}.shared_expert_gate")),
        },
    ),
    other_names=JOINT_NAMES,
)


def _read_window(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
    window = attributes["sliding_window"] if attributes["use_sliding_window"] else None
    set_values(tree, f"{ATTENTION}.window", window)


def _write_window(tree: Table) -> Table:
    windows = values_at(tree, f"{ATTENTION}.window")
    if len(set(windows)) > 1:
        raise Unfit("attention.window differs between layers, but this family has one window")
    return {"sliding_window": windows[0], "use_sliding_window": windows[0] is not None}


def _read_n_experts(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
    """Qwen's own name, or the one that `transformers` writes."""
    qwen_count, count = attributes["num_experts"], attributes["num_local_experts"]
    if qwen_count is not None and count is not None and qwen_count != count:
        raise CheckpointError(
            f"config.json has num_experts {qwen_count} and num_local_experts {count}: remove one"
        )
    set_values(
        tree, f"{MIXTURE}.n_experts", next((n for n in (qwen_count, count) if n is not None), 128)
    )


QWEN3_MOE = replace(
    decoder_family(
        "qwen3_moe",
        "Qwen3Moe",
        (
            *DECODER_ROWS,
            _qwen_layers(mixture()),
            ACTIVATION,
            ROTARY,
            flag("attention_bias", *BIASES, default=False),
            number("rms_norm_eps", "decoder.norm.eps", f"{ATTENTION}.qk_norm.eps", default=1e-6),
            Row(
                rules={
                    "use_sliding_window": Read(bool, False),
                    "sliding_window": Read(int, 4096, or_none=True),
                },
                read=_read_window,
                write=_write_window,
            ),
            ignored("transformers does not read it in this family", "max_window_layers"),
            integer("intermediate_size", f"{DENSE}.d_ff", default=6144),
            integer("moe_intermediate_size", f"{MIXTURE}.expert.d_ff", default=768),
            Row(
                rules={
                    "num_experts": Read(int, None),
                    "num_local_experts": Read(int, None),
                },
                read=_read_n_experts,
                write=lambda tree: {"num_experts": values_at(tree, f"{MIXTURE}.n_experts")[0]},
            ),
            integer("num_experts_per_tok", ACTIVE, default=8),
            flag("norm_topk_prob", NORMALISED, default=False),
            balance_row(),
        ),
        skeleton=skeleton(attention={"qk_norm": RMS_NORM}, feed_forward={}),
        names=EXPERT_NAMES,
    ),
    other_names=JOINT_NAMES,
)


def _olmoe_rows(
    d_ff: int, n_experts: int, n_active: int, eps: float, rotary: Row
) -> tuple[Row, ...]:
    """The attributes of OLMoE, with the defaults of a family."""
    return (
        *(row for row in DECODER_ROWS if "head_dim" not in row.rules),
        computed(HEAD_WIDTH.value, f"{ATTENTION}.d_head"),
        ACTIVATION,
        rotary,
        flag("attention_bias", *BIASES, default=False),
        number("rms_norm_eps", "decoder.norm.eps", f"{ATTENTION}.qk_norm.eps", default=eps),
        integer("intermediate_size", f"{MIXTURE}.expert.d_ff", default=d_ff),
        integer("num_experts", f"{MIXTURE}.n_experts", default=n_experts),
        integer("num_experts_per_tok", ACTIVE, default=n_active),
        flag("norm_topk_prob", NORMALISED, default=False),
        balance_row(0.01),
    )


_OLMOE_ATTENTION: Table = {"qk_norm": RMS_NORM, "qk_norm_over": "all_heads"}
OLMOE = replace(
    decoder_family(
        "olmoe",
        "Olmoe",
        (
            *_olmoe_rows(2048, 64, 8, 1e-5, ROTARY),
            number("clip_qkv", f"{ATTENTION}.clip", default=None, or_none=True),
        ),
        skeleton=skeleton(attention=_OLMOE_ATTENTION, feed_forward=mixture()),
        names=EXPERT_NAMES,
        classifies=False,
    ),
    other_names=JOINT_NAMES,
)
FLEX_OLMO = replace(
    decoder_family(
        "flex_olmo",
        "FlexOlmo",
        _olmoe_rows(11008, 7, 5, 1e-6, rotary_row(base=500_000.0)),
        skeleton=skeleton(
            attention=_OLMOE_ATTENTION, feed_forward=mixture(), residual="OutputNorm"
        ),
        names={**EXPERT_NAMES, **OUTPUT_NORMS},
        classifies=False,
        absent_ids=("pad_token_id",),
    ),
    other_names=JOINT_NAMES,
)
