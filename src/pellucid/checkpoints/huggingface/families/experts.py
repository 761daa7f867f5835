"""Decoders with mixtures of experts: Mixtral, Qwen 2 MoE, Qwen 3 MoE, OLMoE, GLM 4.5, gpt-oss.

All choose the experts with the largest scores and drop no token. Mixtral and gpt-oss normalise the
weights of the chosen experts, the others where they say so. Qwen 2 MoE and GLM 4.5 have a layer
that every token uses, in Qwen 2 MoE with a gate. GLM 4.5 has sigmoid scores, a bias of the choice,
and groups. Published files have a tensor for each matrix of each expert, or, from newer programs
and in gpt-oss, one for all experts of a layer.

Source: Jiang et al. 2024, "Mixtral of Experts"; Yang et al. 2024, "Qwen2 Technical Report"; Yang et
al. 2025, "Qwen3 Technical Report"; Muennighoff et al. 2024, "OLMoE"; GLM-4.5 Team 2025, "GLM-4.5";
OpenAI 2025, "gpt-oss-120b & gpt-oss-20b Model Card".
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from pellucid.checkpoints.huggingface.activations import activation
from pellucid.checkpoints.huggingface.attributes import Read, Rules, Table
from pellucid.checkpoints.huggingface.config_tree import set_values, values_at
from pellucid.checkpoints.huggingface.families.decoders import (
    ATTENTION,
    BIASES,
    BLOCK,
    FEED,
    GATED,
    HEAD_WIDTH,
    LAYER,
    NAMES,
    RMS_NORM,
    ROTARY,
    ROWS,
    decoder_family,
    skeleton,
    windows_row,
)
from pellucid.checkpoints.huggingface.families.llama import QWEN2
from pellucid.checkpoints.huggingface.mapping import (
    DirectoryContents,
    Row,
    Unfit,
    computed,
    fixed,
    flag,
    ignored,
    integer,
    number,
)
from pellucid.checkpoints.huggingface.names import Groups, Names, Source, linear, stacked
from pellucid.checkpoints.huggingface.rotary import rotary_row
from pellucid.errors import CheckpointError

#: Paths of the mixtures, and of dense layers between them.
MIXTURE, DENSE = f"{FEED}:Experts", f"{FEED}:GatedMLP"
_EXPERT = f"{BLOCK}.feed_forward.experts.{{e}}"
_OWN_ROWS = ("intermediate_size", "hidden_act")
#: The rows of decoders, without those of the feed-forward.
_ROWS = tuple(row for row in ROWS if not any(name in row.rules for name in _OWN_ROWS))


def mixture(*, expert: Table = GATED, router: Table | None = None, **keys: object) -> Table:
    """The config of a mixture of experts; by default with a softmax router."""
    default = {"kind": "Router", "scores": "softmax"}
    kind = {"kind": "Experts", "expert": expert, "router": {**default, **(router or {})}, **keys}
    # no part is the same table as another one: rows change them one by one
    return {key: copy.deepcopy(value) for key, value in kind.items()}


def _read_balance(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
    if attributes["output_router_logits"]:
        set_values(tree, f"{MIXTURE}.load_loss", attributes["router_aux_loss_coef"] or 0.0)


def _write_balance(tree: Table) -> Table:
    weights = [weight for weight in values_at(tree, f"{MIXTURE}.load_loss") if weight]
    return {
        "output_router_logits": bool(weights),
        **({"router_aux_loss_coef": weights[0]} if weights else {}),
    }


def _balance(default: float = 0.001) -> Row:
    """The load-balancing loss, which `transformers` adds only with `output_router_logits`."""
    rules: Rules = {
        "output_router_logits": Read(bool, False),
        "router_aux_loss_coef": Read(float, default, or_none=True),
    }
    return Row(rules=rules, read=_read_balance, write=_write_balance)


_ACTIVATION = activation(
    "hidden_act",
    f"{MIXTURE}.expert.activation",
    f"{MIXTURE}.shared?.activation",
    f"{DENSE}.activation",
    default="silu",
)
_ACTIVE = f"{MIXTURE}.n_active"
_NORMALISED = f"{MIXTURE}.router.normalised"


def sparse_layers_row(
    sparse: Table,
    is_sparse: Callable[[Table, int], bool],
    rules: Rules,
    describe: Callable[[list[bool]], Table],
) -> Row:
    """Which layers have a mixture of experts; the others have a dense layer.

    Args:
        sparse: the mixture.
        is_sparse: whether the layer of a number has it.
        rules: the attributes that say so.
        describe: their values, from the answer for each layer.
    """

    def read(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
        for number_, layer in enumerate(tree["decoder"]["layers"]):
            kind = sparse if is_sparse(attributes, number_) else GATED
            layer["feed_forward"] = copy.deepcopy(kind)

    def write(tree: Table) -> Table:
        kinds: list[str] = values_at(tree, f"{FEED}.kind")
        if other := next((kind for kind in kinds if kind not in ("Experts", "GatedMLP")), None):
            raise Unfit(f"feed_forward is {other}, but this family has Experts or GatedMLP")
        if "Experts" not in kinds:
            raise Unfit("no layer has a mixture of experts, but this family has some")
        return describe([kind == "Experts" for kind in kinds])

    return Row(rules=rules, read=read, write=write)


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


def expert_names(published: str, gate: str, up: str, down: str) -> Iterator[tuple[str, Source]]:
    """A tensor for each matrix of each expert, at a path such as model.layers.{n}.mlp.experts."""
    for ours, theirs in (("gate", gate), ("up", up), ("down", down)):
        yield from linear(f"{_EXPERT}.{ours}", f"{published}.{{e}}.{theirs}")


def joint_names(
    gate_up: str,
    down: str,
    *,
    bias: str = "",
    groups: Groups = "one",
    transposed: bool = False,
) -> Iterator[tuple[str, Source]]:
    """One tensor for gate and up of all experts of a layer, and one for down.

    Args:
        gate_up: the name of the first.
        down: the name of the second.
        bias: what follows the names of the biases; empty if there are none.
        groups: in how many groups the rows of gate and up come.
        transposed: whether matrices are stored as (in, out).
    """
    suffixes = {"weight": "", **({"bias": bias} if bias else {})}
    rows: list[tuple[str, Source]] = []
    for part, suffix in suffixes.items():
        members = tuple(f"{_EXPERT}.{name}.{part}" for name in ("gate", "up"))
        for index, parameter in enumerate(members):
            source = Source(f"{gate_up}{suffix}", transposed, members, index, groups)
            rows.append((parameter, source))
        rows.append((f"{_EXPERT}.down.{part}", Source(f"{down}{suffix}", transposed)))
    return stacked(rows)


_MLP = f"{LAYER}.mlp"
_JOINT: Names = dict(joint_names(f"{_MLP}.experts.gate_up_proj", f"{_MLP}.experts.down_proj"))
#: The names that most families share.
_NAMES: Names = {
    **NAMES,
    **dict(expert_names(f"{_MLP}.experts", "gate_proj", "up_proj", "down_proj")),
    **dict(linear(f"{BLOCK}.feed_forward.router", f"{_MLP}.gate")),
}


def _shared_names(published: str) -> Names:
    names: dict[str, Source] = {}
    for part in ("gate", "up", "down"):
        path = f"{BLOCK}.feed_forward.shared.{part}"
        names |= dict(linear(path, f"{_MLP}.{published}.{part}_proj"))
    return names


_SPARSE = f"{LAYER}.block_sparse_moe"
MIXTRAL = replace(
    decoder_family(
        "mixtral",
        "Mixtral",
        (
            *_ROWS,
            _ACTIVATION,
            ROTARY,
            number("rms_norm_eps", "decoder.norm.eps", default=1e-5),
            integer("sliding_window", f"{ATTENTION}.window", default=None, or_none=True),
            integer("num_key_value_heads", f"{ATTENTION}.n_kv_heads", default=8),
            integer("intermediate_size", f"{MIXTURE}.expert.d_ff"),
            integer("num_local_experts", f"{MIXTURE}.n_experts", default=8),
            integer("num_experts_per_tok", _ACTIVE, default=2),
            _balance(),
            ignored("noise of the training", "router_jitter_noise"),
        ),
        skeleton=skeleton(feed_forward=mixture(router={"normalised": True})),
        names={
            **NAMES,
            **dict(expert_names(f"{_SPARSE}.experts", "w1", "w3", "w2")),
            **dict(linear(f"{BLOCK}.feed_forward.router", f"{_SPARSE}.gate")),
        },
    ),
    other_names={**_JOINT, **dict(linear(f"{BLOCK}.feed_forward.router", f"{_MLP}.gate"))},
)

_QWEN2_MIXTURE = mixture(shared=GATED, shared_gate=True)
QWEN2_MOE = replace(
    decoder_family(
        "qwen2_moe",
        "Qwen2Moe",
        (
            *(row for row in QWEN2.rows if not any(name in row.rules for name in _OWN_ROWS)),
            _qwen_layers(_QWEN2_MIXTURE),
            _ACTIVATION,
            flag("qkv_bias", f"{ATTENTION}.qkv_bias", default=True),
            integer("intermediate_size", f"{DENSE}.d_ff", default=5632),
            integer("moe_intermediate_size", f"{MIXTURE}.expert.d_ff", default=1408),
            integer("shared_expert_intermediate_size", f"{MIXTURE}.shared.d_ff", default=5632),
            integer("num_experts", f"{MIXTURE}.n_experts", default=60),
            integer("num_experts_per_tok", _ACTIVE, default=4),
            flag("norm_topk_prob", _NORMALISED, default=False),
            _balance(),
        ),
        skeleton=skeleton(feed_forward={}),
        names={
            **_NAMES,
            **_shared_names("shared_expert"),
            **dict(linear(f"{BLOCK}.feed_forward.shared_gate", f"{_MLP}.shared_expert_gate")),
        },
    ),
    other_names=_JOINT,
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
    own, other = attributes["num_experts"], attributes["num_local_experts"]
    if own is not None and other is not None and own != other:
        raise CheckpointError(
            f"config.json has num_experts {own} and num_local_experts {other}: remove one"
        )
    set_values(tree, f"{MIXTURE}.n_experts", next((n for n in (own, other) if n is not None), 128))


QWEN3_MOE = replace(
    decoder_family(
        "qwen3_moe",
        "Qwen3Moe",
        (
            *_ROWS,
            _qwen_layers(mixture()),
            _ACTIVATION,
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
            integer("num_experts_per_tok", _ACTIVE, default=8),
            flag("norm_topk_prob", _NORMALISED, default=False),
            _balance(),
        ),
        skeleton=skeleton(attention={"qk_norm": RMS_NORM}, feed_forward={}),
        names=_NAMES,
    ),
    other_names=_JOINT,
)

OLMOE = replace(
    decoder_family(
        "olmoe",
        "Olmoe",
        (
            *(row for row in _ROWS if "head_dim" not in row.rules),
            computed(HEAD_WIDTH.value, f"{ATTENTION}.d_head"),
            _ACTIVATION,
            ROTARY,
            flag("attention_bias", *BIASES, default=False),
            number("rms_norm_eps", "decoder.norm.eps", f"{ATTENTION}.qk_norm.eps", default=1e-5),
            fixed("clip_qkv", None),
            integer("intermediate_size", f"{MIXTURE}.expert.d_ff", default=2048),
            integer("num_experts", f"{MIXTURE}.n_experts", default=64),
            integer("num_experts_per_tok", _ACTIVE, default=8),
            flag("norm_topk_prob", _NORMALISED, default=False),
            _balance(0.01),
        ),
        skeleton=skeleton(
            attention={"qk_norm": RMS_NORM, "qk_norm_over": "all_heads"}, feed_forward=mixture()
        ),
        names=_NAMES,
        classifies=False,
    ),
    other_names=_JOINT,
)


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


def _read_shared(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
    width = attributes["n_shared_experts"] * attributes["moe_intermediate_size"]
    set_values(tree, f"{MIXTURE}.shared.d_ff", width)


def _write_shared(tree: Table) -> Table:
    width: int = values_at(tree, f"{MIXTURE}.expert.d_ff")[0]
    shared: int = values_at(tree, f"{MIXTURE}.shared.d_ff")[0]
    return {"n_shared_experts": shared // width}


def _read_query_key_norm(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
    if attributes["use_qk_norm"]:
        norm = {**RMS_NORM, "eps": attributes["rms_norm_eps"]}
        set_values(tree, f"{ATTENTION}.qk_norm", norm)


def _write_query_key_norm(tree: Table) -> Table:
    return {"use_qk_norm": values_at(tree, f"{ATTENTION}.qk_norm")[0] is not None}


_SIGMOID: Table = {"scores": "sigmoid", "balancing_rate": 0.0}
GLM4_MOE = replace(
    decoder_family(
        "glm4_moe",
        "Glm4Moe",
        (
            *_ROWS,
            sparse_layers_row(
                mixture(router=_SIGMOID, shared=GATED),
                _is_after_dense,
                {"first_k_dense_replace": Read(int, 1)},
                _count_dense,
            ),
            _ACTIVATION,
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
            Row(rules={"n_shared_experts": Read(int, 1)}, read=_read_shared, write=_write_shared),
            integer("n_routed_experts", f"{MIXTURE}.n_experts", default=128),
            integer("num_experts_per_tok", _ACTIVE, default=8),
            flag("norm_topk_prob", _NORMALISED, default=True),
            number("routed_scaling_factor", f"{MIXTURE}.router.scale", default=1.0),
            Row(
                rules={"n_group": Read(int, 1), "topk_group": Read(int, 1)},
                read=_read_groups,
                write=_write_groups,
            ),
            ignored(
                "for layers that predict further tokens, which the class does not have",
                "num_nextn_predict_layers",
                "num_mtp_layers",
            ),
            ignored("outputs of a call besides the logits", "output_router_logits"),
        ),
        skeleton=skeleton(feed_forward={}),
        names={
            **_NAMES,
            **_shared_names("shared_experts"),
            f"{BLOCK}.feed_forward.choice_bias": Source(f"{_MLP}.gate.e_score_correction_bias"),
        },
        classifies=False,
    ),
    other_names=_JOINT,
)

#: What `transformers` takes if a file says nothing.
_GPT_OSS_SCALING: Table = {
    "rope_type": "yarn",
    "factor": 32.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "truncate": False,
    "original_max_position_embeddings": 4096,
}


def _gpt_oss_rotary() -> Row:
    row = rotary_row(base=150_000.0)

    def read(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
        if attributes["rope_scaling"] is None and attributes["rope_parameters"] is None:
            attributes = {**attributes, "rope_parameters": _GPT_OSS_SCALING}
        row.read(attributes, tree, stored)

    def write(tree: Table) -> Table:
        table = row.write(tree)
        scaling = table["rope_scaling"] or {"rope_type": "default"}
        return {"rope_parameters": {"rope_theta": table["rope_theta"], **scaling}}

    return Row(rules=row.rules, read=read, write=write)


_GPT_OSS_EXPERT: Table = {"kind": "ClampedGatedMLP", "bias": True}
GPT_OSS = decoder_family(
    "gpt_oss",
    "GptOss",
    (
        *(row for row in _ROWS if "head_dim" not in row.rules),
        integer("head_dim", f"{ATTENTION}.d_head", default=replace(HEAD_WIDTH, absent=64)),
        _gpt_oss_rotary(),
        windows_row(lambda attributes, layer: layer % 2 == 0, default=128),
        flag("attention_bias", *BIASES, default=True),
        number("rms_norm_eps", "decoder.norm.eps", default=1e-5),
        integer("intermediate_size", f"{MIXTURE}.expert.d_ff", default=2880),
        integer("num_local_experts", f"{MIXTURE}.n_experts", default=128),
        integer("num_experts_per_tok", _ACTIVE, default=4),
        number("swiglu_alpha", f"{MIXTURE}.expert.slope", default=1.702),
        number("swiglu_limit", f"{MIXTURE}.expert.limit", default=7.0),
        ignored("the experts have an activation of their own", "hidden_act"),
        ignored("the same as num_experts_per_tok", "experts_per_token"),
        ignored("the length of the context before YaRN", "initial_context_length"),
        _balance(),
    ),
    skeleton=skeleton(
        attention={"sinks": True},
        feed_forward=mixture(expert=_GPT_OSS_EXPERT, router={"normalised": True, "bias": True}),
    ),
    names={
        **{name: source for name, source in NAMES.items() if ".feed_forward." not in name},
        f"{BLOCK}.attention.sinks": Source(f"{LAYER}.self_attn.sinks"),
        **dict(
            joint_names(
                f"{_MLP}.experts.gate_up_proj",
                f"{_MLP}.experts.down_proj",
                bias="_bias",
                groups="rows",
                transposed=True,
            )
        ),
        **dict(linear(f"{BLOCK}.feed_forward.router", f"{_MLP}.router")),
    },
)
