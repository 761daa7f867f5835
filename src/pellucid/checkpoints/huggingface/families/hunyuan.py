"""HunYuan, dense: a Llama whose queries and keys are normalised after their rotation.

Its long contexts stretch the base by a fixed factor, which the files call dynamic with an alpha:
`NTKScaling`.

Source: Tencent Hunyuan Team 2025, the released code of Hunyuan-7B-Instruct.
"""

from __future__ import annotations

from pellucid.checkpoints.huggingface.attributes import Table
from pellucid.checkpoints.huggingface.config_tree import set_values, values_at
from pellucid.checkpoints.huggingface.families.decoders import (
    ATTENTION,
    BIASES,
    BLOCK,
    LAYER,
    NAMES,
    ONE_RANK,
    POSITIONS,
    RMS_NORM,
    ROTARY,
    ROWS,
    decoder_family,
    skeleton,
)
from pellucid.checkpoints.huggingface.mapping import (
    DirectoryContents,
    Row,
    fixed,
    flag,
    ignored,
    number,
)
from pellucid.checkpoints.huggingface.names import norm

_ROTARY_PATH = f"{POSITIONS}:Rotary"
_FORMS = "rope_scaling", "rope_parameters"


def _alpha(table: Table | None) -> float | None:
    """The factor of the base in one form of the rope attributes."""
    kind = (table or {}).get("rope_type") or (table or {}).get("type")
    return (table or {}).get("alpha") if kind == "dynamic" else None


def _read_rotary(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
    form = next((name for name in _FORMS if _alpha(attributes[name])), None)
    if form is None:
        ROTARY.read(attributes, tree, stored)
        return
    # the class reads no other number of the scaling
    plain = {key: value for key, value in attributes[form].items() if key == "rope_theta"}
    ROTARY.read({**attributes, form: plain}, tree, stored)
    scaling = {"kind": "NTKScaling", "factor": float(attributes[form]["alpha"])}
    set_values(tree, f"{_ROTARY_PATH}.scaling", scaling)


def _write_rotary(tree: Table) -> Table:
    table = ROTARY.write(tree)
    scaling: Table = values_at(tree, f"{_ROTARY_PATH}.scaling")[0] or {}
    if scaling.get("kind") != "NTKScaling":
        return table
    dynamic = {"rope_type": "dynamic", "factor": 1.0, "alpha": scaling["factor"]}
    return {**table, "rope_scaling": dynamic}


HUNYUAN = decoder_family(
    "hunyuan_v1_dense",
    "HunYuanDenseV1",
    (
        *ROWS,
        Row(rules=ROTARY.rules, read=_read_rotary, write=_write_rotary),
        flag("attention_bias", *BIASES, default=False),
        number("rms_norm_eps", "decoder.norm.eps", f"{ATTENTION}.qk_norm.eps", default=1e-5),
        ONE_RANK,
        fixed("use_qk_norm", True),
        fixed("use_cla", False),
        fixed("use_rotary_pos_emb", True),
        fixed("norm_type", "rms"),
        fixed("mlp_bias", False),
        ignored("repeat others", "attention_head_dim", "org_vocab_size"),
        ignored("read with use_cla alone", "cla_share_factor"),
        ignored("names a token", "eod_token_id"),
    ),
    skeleton=skeleton(attention={"qk_norm": RMS_NORM, "qk_norm_place": "after_rotation"}),
    names={
        **NAMES,
        **dict(norm(f"{BLOCK}.attention.query_norm", f"{LAYER}.self_attn.query_layernorm")),
        **dict(norm(f"{BLOCK}.attention.key_norm", f"{LAYER}.self_attn.key_layernorm")),
    },
)
