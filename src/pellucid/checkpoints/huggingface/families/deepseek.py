"""DeepSeek V2 and V3: multi-head latent attention, and mixtures of experts after dense layers.

V2 routes by a softmax, and can choose groups of experts by their best. V3 routes by sigmoids with
a bias of the choice, and chooses groups by the sum of their two best. With YaRN, mscale changes the
scale of the scores.

Source: DeepSeek-AI 2024, "DeepSeek-V2"; DeepSeek-AI 2024, "DeepSeek-V3 Technical Report".
"""

from __future__ import annotations

import math
from dataclasses import replace

from pellucid import config
from pellucid.checkpoints.huggingface.attributes import Read, Table
from pellucid.checkpoints.huggingface.config_tree import set_values, values_at
from pellucid.checkpoints.huggingface.families.decoders import (
    ATTENTION,
    BLOCK,
    GATED,
    IGNORED_TENSORS,
    LAYER,
    POSITIONS,
    decoder_family,
    skeleton,
)
from pellucid.checkpoints.huggingface.families.glm4_moe import (
    SIGMOID,
    dense_first_row,
    groups_row,
    shared_row,
)
from pellucid.checkpoints.huggingface.families.mixtures import (
    ACTIVATION,
    ACTIVE,
    DECODER_ROWS,
    DENSE,
    EXPERT_NAMES,
    JOINT_NAMES,
    MIXTURE,
    MLP,
    NORMALISED,
    mixture,
    shared_names,
)
from pellucid.checkpoints.huggingface.family import Family
from pellucid.checkpoints.huggingface.mapping import (
    DirectoryContents,
    Row,
    Unfit,
    choice,
    fixed,
    flag,
    ignored,
    integer,
    number,
)
from pellucid.checkpoints.huggingface.names import Names, Source, fused, linear, norm
from pellucid.checkpoints.huggingface.rotary import rotary_row
from pellucid.errors import CheckpointError
from pellucid.reader import short

_ROTARY = rotary_row(interleaved=True, width="d_rotated")


def _default_scale(tree: Table) -> float:
    widths = [values_at(tree, f"{ATTENTION}.{name}")[0] for name in ("d_head", "d_rotated")]
    return sum(widths) ** -0.5


def _read_rotary(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
    _ROTARY.read(attributes, tree, stored)
    old: Table = attributes["rope_scaling"] or {}
    new: Table = attributes["rope_parameters"] or {}
    parameters = old | new
    weight = parameters.get("mscale_all_dim")
    if weight and values_at(tree, f"{POSITIONS}.scaling")[0] is not None:
        scale = _scaled(_default_scale(tree), parameters["factor"], weight)
        set_values(tree, f"{ATTENTION}.scale", scale)


def _scaled(scale: float, factor: float, weight: float) -> float:
    mscale = 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0
    return scale * mscale * mscale


def _write_rotary(tree: Table) -> Table:
    table, scale = _ROTARY.write(tree), values_at(tree, f"{ATTENTION}.scale")[0]
    plain = _default_scale(tree)
    if scale is None or scale == plain:
        return table
    scaling: Table = table["rope_scaling"] or {}
    factor = scaling.get("factor", 1.0)
    if scaling.get("rope_type") != "yarn" or factor <= 1 or scale < plain:
        raise Unfit(
            f"attention.scale is {scale:g}, but this family has another one with YaRN alone"
        )
    weight = (math.sqrt(scale / plain) - 1) / (0.1 * math.log(factor))
    nearby = (weight, math.nextafter(weight, 0), math.nextafter(weight, math.inf), round(weight, 9))
    exact = (value for value in nearby if _scaled(plain, factor, value) == scale)
    scaling["mscale_all_dim"] = next(exact, weight)
    return table


_ROWS: tuple[Row, ...] = (
    *(
        row
        for row in DECODER_ROWS
        if not any(name in row.rules for name in ("num_key_value_heads", "head_dim"))
    ),
    Row(
        rules={"num_key_value_heads": Read(int, None)},
        write=lambda tree: {"num_key_value_heads": values_at(tree, f"{ATTENTION}.n_heads")[0]},
    ),
    integer("q_lora_rank", f"{ATTENTION}.d_query_latent", default=1536, or_none=True),
    integer("kv_lora_rank", f"{ATTENTION}.d_latent", default=512),
    integer("qk_nope_head_dim", f"{ATTENTION}.d_head", default=128),
    integer("qk_rope_head_dim", f"{ATTENTION}.d_rotated", default=64),
    integer("v_head_dim", f"{ATTENTION}.d_value", default=128),
    ignored("follow from others", "qk_head_dim", "head_dim"),
    flag("attention_bias", f"{ATTENTION}.latent_bias", f"{ATTENTION}.out_bias", default=False),
    Row(rules=_ROTARY.rules, read=_read_rotary, write=_write_rotary),
    fixed("moe_layer_freq", 1),
    ignored("the same products in another order", "pretraining_tp", "ep_size"),
    ignored("how it was trained", "aux_loss_alpha", "seq_aux", "router_aux_loss_coef"),
    ignored("outputs of a call besides the logits", "output_router_logits"),
    ignored(
        "for layers that predict further tokens, which the class does not have",
        "num_nextn_predict_layers",
        "num_mtp_layers",
    ),
)
_LATENT: Table = {
    "kind": "LatentAttention",
    "latent_norm": {"kind": "RMSNorm", "eps": 1e-6},  # whatever rms_norm_eps says
    "dropout": 0.0,
}


def _skeleton() -> Table:
    table = skeleton(feed_forward={})
    table["decoder"]["layers"][0]["attention"] = _LATENT
    return table


def _names(model: config.Transformer) -> Names:
    decoder = model.decoder
    latent = decoder is not None and any(
        isinstance(layer, config.LatentAttention) and layer.d_query_latent is not None
        for layer in decoder.pattern
    )
    query, path = "q_b_proj" if latent else "q_proj", f"{LAYER}.self_attn"
    attention = f"{BLOCK}.attention"
    return {
        **EXPERT_NAMES,
        **shared_names("shared_experts"),
        f"{BLOCK}.feed_forward.choice_bias": Source(f"{MLP}.gate.e_score_correction_bias"),
        **dict(linear(f"{attention}.query_latent", f"{path}.q_a_proj")),
        **dict(norm(f"{attention}.query_latent_norm", f"{path}.q_a_layernorm")),
        **dict(linear(f"{attention}.query", f"{path}.{query}")),
        **dict(fused(attention, ("latent", "rotated_key"), f"{path}.kv_a_proj_with_mqa")),
        **dict(norm(f"{attention}.latent_norm", f"{path}.kv_a_layernorm")),
        **dict(fused(attention, ("key", "value"), f"{path}.kv_b_proj", groups="heads")),
        **dict(linear(f"{attention}.output", f"{path}.o_proj")),
    }


#: The ways in which V2 chooses experts; `transformers` leaves their weights as they are.
_METHODS = ("greedy", "group_limited_greedy")


def _read_method(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
    method = attributes["topk_method"]
    if method not in _METHODS:
        raise CheckpointError(
            f"config.json: topk_method = {short(method)} is not handled; those that are: "
            f"{', '.join(_METHODS)}"
        )
    if method == _METHODS[1]:
        groups = {"kind": "ExpertGroups", "score": "largest"}
        groups |= {"n_groups": attributes["n_group"], "n_active": attributes["topk_group"]}
        set_values(tree, f"{MIXTURE}.router.groups", groups)


def _write_method(tree: Table) -> Table:
    groups = values_at(tree, f"{MIXTURE}.router.groups")[0]
    if groups is None:
        return {"topk_method": _METHODS[0]}
    sizes = {"n_group": groups["n_groups"], "topk_group": groups["n_active"]}
    return {"topk_method": _METHODS[1], **sizes}


def _family(model_type: str, stem: str, rows: tuple[Row, ...]) -> Family:
    family = decoder_family(
        model_type,
        stem,
        (*_ROWS, *rows),
        skeleton=_skeleton(),
        names=_names,
        ignored_tensors={
            **IGNORED_TENSORS,
            r"model\.layers\.61\..*": "a layer of V3 that predicts a further token",
        },
    )
    return replace(family, other_names=JOINT_NAMES)


DEEPSEEK_V2 = _family(
    "deepseek_v2",
    "DeepseekV2",
    (
        dense_first_row(mixture(shared=GATED, router={"normalised": False}), 0),
        ACTIVATION,
        integer("intermediate_size", f"{DENSE}.d_ff", default=11008),
        integer("moe_intermediate_size", f"{MIXTURE}.expert.d_ff", default=1407),
        shared_row(2),
        integer("n_routed_experts", f"{MIXTURE}.n_experts", default=64),
        integer("num_experts_per_tok", ACTIVE),
        number("routed_scaling_factor", f"{MIXTURE}.router.scale", default=1.0),
        Row(
            rules={
                "topk_method": Read(str, "greedy"),
                "n_group": Read(int, None),
                "topk_group": Read(int, None),
            },
            read=_read_method,
            write=_write_method,
        ),
        fixed("norm_topk_prob", False),
        fixed("scoring_func", "softmax"),
        fixed("mlp_bias", False),
    ),
)
DEEPSEEK_V3 = _family(
    "deepseek_v3",
    "DeepseekV3",
    (
        choice(
            "rope_interleave",
            {True: "interleaved", False: "half_split"},
            f"{POSITIONS}:Rotary.pairing",
            default=True,
        ),
        dense_first_row(mixture(shared=GATED, router=SIGMOID), 3),
        ACTIVATION,
        integer("intermediate_size", f"{DENSE}.d_ff", default=18432),
        integer("moe_intermediate_size", f"{MIXTURE}.expert.d_ff", default=2048),
        shared_row(1),
        integer("n_routed_experts", f"{MIXTURE}.n_experts", default=256),
        integer("num_experts_per_tok", ACTIVE, default=8),
        flag("norm_topk_prob", NORMALISED, default=True),
        number("routed_scaling_factor", f"{MIXTURE}.router.scale", default=2.5),
        groups_row(8, 4),
        fixed("scoring_func", "sigmoid"),
        fixed("topk_method", "noaux_tc"),
    ),
)
