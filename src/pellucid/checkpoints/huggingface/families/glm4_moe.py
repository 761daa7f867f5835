"""GLM 4.5 and dots.llm1: a sigmoid router with a bias of the choice, after a few dense layers.

Experts can come in groups. dots.llm1 always normalises queries and keys, and layers can have
windows.

Source: GLM-4.5 Team 2025, "GLM-4.5: Agentic, Reasoning, and Coding (ARC) Foundation Models"; Huo et
al. 2025, "dots.llm1 Technical Report".
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pellucid.checkpoints.huggingface.attributes import REQUIRED, Read, Table
from pellucid.checkpoints.huggingface.config_tree import set_values, values_at
from pellucid.checkpoints.huggingface.families.decoders import (
    ATTENTION,
    BIASES,
    BLOCK,
    GATED,
    RMS_NORM,
    ROTARY,
    decoder_family,
    skeleton,
    windows_row,
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
    sparse_layers_row,
)
from pellucid.checkpoints.huggingface.mapping import (
    DirectoryContents,
    Row,
    Unfit,
    flag,
    ignored,
    integer,
    number,
)
from pellucid.checkpoints.huggingface.names import Names, Source
from pellucid.checkpoints.huggingface.rotary import rotary_row


def _is_after_dense(attributes: Table, layer: int) -> bool:
    return layer >= attributes["first_k_dense_replace"]


def _count_dense(is_sparse: list[bool]) -> Table:
    n_dense = is_sparse.index(True)
    if not all(is_sparse[n_dense:]):
        raise Unfit("dense layers follow mixtures of experts, but in this family they come first")
    return {"first_k_dense_replace": n_dense}


def _read_groups(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
    if attributes["n_group"] > 1:
        groups = {"kind": "ExpertGroups", "score": "two_largest"}
        groups |= {"n_groups": attributes["n_group"], "n_active": attributes["topk_group"]}
        set_values(tree, f"{MIXTURE}.router.groups", groups)


def _write_groups(tree: Table) -> Table:
    groups = values_at(tree, f"{MIXTURE}.router.groups")[0]
    if groups is None:
        return {"n_group": 1, "topk_group": 1}
    return {"n_group": groups["n_groups"], "topk_group": groups["n_active"]}


def dense_first_row(sparse: Table, default: int) -> Row:
    """How many dense layers come before the mixtures."""
    rules = {"first_k_dense_replace": Read(int, default)}
    return sparse_layers_row(sparse, _is_after_dense, rules, _count_dense)


def shared_row(default: Any, name: str = "n_shared_experts", *, optional: bool = False) -> Row:
    """The width of the layer that every token uses, in widths of an expert.

    Args:
        default: of the attribute.
        name: of the attribute.
        optional: whether 0 says that there is no such layer.
    """

    def read(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
        width: int = attributes[name] * attributes["moe_intermediate_size"]
        if optional and not width:
            set_values(tree, f"{MIXTURE}.shared", None)
        else:
            set_values(tree, f"{MIXTURE}.shared.d_ff", width)

    def write(tree: Table) -> Table:
        shared: Table | None = values_at(tree, f"{MIXTURE}.shared")[0]
        if shared is None and not optional:
            raise Unfit("no layer is shared by all tokens, but in this family one is")
        width: int = values_at(tree, f"{MIXTURE}.expert.d_ff")[0]
        return {name: 0 if shared is None else shared["d_ff"] // width}

    return Row(rules={name: Read(int, default)}, read=read, write=write)


def groups_row(n_groups: int, n_active: int) -> Row:
    """Groups of experts: a token uses some of them. The arguments are the defaults."""
    rules = {"n_group": Read(int, n_groups), "topk_group": Read(int, n_active)}
    return Row(rules=rules, read=_read_groups, write=_write_groups)


def _read_query_key_norm(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
    if attributes["use_qk_norm"]:
        norm = {**RMS_NORM, "eps": attributes["rms_norm_eps"]}
        set_values(tree, f"{ATTENTION}.qk_norm", norm)


def _write_query_key_norm(tree: Table) -> Table:
    return {"use_qk_norm": values_at(tree, f"{ATTENTION}.qk_norm")[0] is not None}


_ROUTER_OUTPUTS = ignored("outputs of a call besides the logits", "output_router_logits")
_NAMES: Names = {
    **EXPERT_NAMES,
    **shared_names("shared_experts"),
    f"{BLOCK}.feed_forward.choice_bias": Source(f"{MLP}.gate.e_score_correction_bias"),
}
SIGMOID: Table = {"scores": "sigmoid", "balancing_rate": 0.0}
GLM4_MOE = replace(
    decoder_family(
        "glm4_moe",
        "Glm4Moe",
        (
            *DECODER_ROWS,
            dense_first_row(mixture(router=SIGMOID, shared=GATED), 1),
            ACTIVATION,
            rotary_row(share={"partial_rotary_factor": 0.5}),
            flag("attention_bias", f"{ATTENTION}.qkv_bias", default=False),
            number("rms_norm_eps", "decoder.norm.eps", default=1e-5),
            Row(
                rules={"use_qk_norm": Read(bool, False)},
                read=_read_query_key_norm,
                write=_write_query_key_norm,
            ),
            integer("intermediate_size", f"{DENSE}.d_ff", default=10944),
            integer("moe_intermediate_size", f"{MIXTURE}.expert.d_ff", default=1408),
            shared_row(1),
            integer("n_routed_experts", f"{MIXTURE}.n_experts", default=128),
            integer("num_experts_per_tok", ACTIVE, default=8),
            flag("norm_topk_prob", NORMALISED, default=True),
            number("routed_scaling_factor", f"{MIXTURE}.router.scale", default=1.0),
            groups_row(1, 1),
            ignored(
                "for layers that predict further tokens, which the class does not have",
                "num_nextn_predict_layers",
                "num_mtp_layers",
            ),
            _ROUTER_OUTPUTS,
        ),
        skeleton=skeleton(feed_forward={}),
        names=_NAMES,
        classifies=False,
    ),
    other_names=JOINT_NAMES,
)

DOTS1 = replace(
    decoder_family(
        "dots1",
        "Dots1",
        (
            *DECODER_ROWS,
            dense_first_row(mixture(router=SIGMOID, shared=GATED), 0),
            ACTIVATION,
            ROTARY,
            flag("attention_bias", *BIASES, default=False),
            number("rms_norm_eps", "decoder.norm.eps", f"{ATTENTION}.qk_norm.eps", default=1e-6),
            windows_row(
                lambda attributes, layer: layer >= attributes["max_window_layers"],
                rules={"max_window_layers": Read(int, 62)},
                describe=lambda windows: {"max_window_layers": 0},  # layer_types names the layers
            ),
            integer("intermediate_size", f"{DENSE}.d_ff", default=10944),
            integer("moe_intermediate_size", f"{MIXTURE}.expert.d_ff", default=1408),
            shared_row(REQUIRED),
            integer("n_routed_experts", f"{MIXTURE}.n_experts"),
            integer("num_experts_per_tok", ACTIVE),
            flag("norm_topk_prob", NORMALISED, default=False),
            number("routed_scaling_factor", f"{MIXTURE}.router.scale", default=1.0),
            groups_row(1, 1),
            _ROUTER_OUTPUTS,
        ),
        skeleton=skeleton(attention={"qk_norm": RMS_NORM}, feed_forward={}),
        names=_NAMES,
        classifies=False,
    ),
    other_names=JOINT_NAMES,
)
