"""Granite, dense or with experts: four factors, of embeddings, layers, scores and logits.

A layer that every token uses can be added to the experts.

Source: IBM 2024, "Granite 3.0 Language Models", and its released code.
"""

from __future__ import annotations

import math
from dataclasses import replace

from pellucid.checkpoints.huggingface.attributes import Read, Table
from pellucid.checkpoints.huggingface.config_tree import set_values, values_at
from pellucid.checkpoints.huggingface.families.decoders import (
    ATTENTION,
    BIASES,
    BLOCK,
    FEED,
    GATED,
    LAYER,
    NAMES,
    ROTARY,
    ROWS,
    decoder_family,
    skeleton,
)
from pellucid.checkpoints.huggingface.families.mixtures import (
    ACTIVATION,
    ACTIVE,
    DECODER_ROWS,
    MIXTURE,
    balance_row,
    joint_names,
    mixture,
)
from pellucid.checkpoints.huggingface.mapping import (
    DirectoryContents,
    Row,
    attribute,
    flag,
    integer,
)
from pellucid.checkpoints.huggingface.names import Names, fused, linear
from pellucid.config.checks import positive

_SCORES = "attention_multiplier"


def factor(name: str, *paths: str) -> Row:
    """A factor that a config leaves out if it is 1."""
    return attribute(
        name,
        Read(float, 1.0),
        *paths,
        to_config=lambda value: None if value == 1 else value,
        from_config=lambda value: 1.0 if value is None else value,
    )


def divisor(name: str, *paths: str) -> Row:
    """A number that divides; the config has its inverse."""

    def to_config(value: float) -> float | None:
        positive(name, value)
        return None if value == 1 else 1 / value

    def from_config(value: float | None) -> float:
        if value is None:
            return 1.0
        inverse = 1 / value
        candidates = (float(round(inverse)), inverse, math.nextafter(inverse, math.inf))
        return next((number for number in candidates if number and 1 / number == value), inverse)

    return attribute(name, Read(float, 1.0), *paths, to_config=to_config, from_config=from_config)


def _read_scores(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
    set_values(tree, f"{ATTENTION}.scale", attributes[_SCORES])


def _write_scores(tree: Table) -> Table:
    scale, d_head = (values_at(tree, f"{ATTENTION}.{key}")[0] for key in ("scale", "d_head"))
    return {_SCORES: d_head**-0.5 if scale is None else scale}


#: The factors, and what dense models and mixtures share besides.
_SHARED: tuple[Row, ...] = (
    ROTARY,
    flag("attention_bias", *BIASES, default=False),
    factor("embedding_multiplier", "embedding.multiplier"),
    factor("residual_multiplier", "decoder.residual.multiplier"),
    divisor("logits_scaling", "head:LanguageHead.multiplier"),
    Row(rules={_SCORES: Read(float, 1.0)}, read=_read_scores, write=_write_scores),
)
GRANITE = decoder_family(
    "granite",
    "Granite",
    (*ROWS, *_SHARED, flag("mlp_bias", f"{FEED}.bias", default=False)),
    skeleton=skeleton(),
    classifies=False,
)

_SPARSE = f"{LAYER}.block_sparse_moe"
_ROUTER = f"{BLOCK}.feed_forward.router"
_MOE_ROWS: tuple[Row, ...] = (
    *DECODER_ROWS,
    *_SHARED,
    ACTIVATION,
    integer("intermediate_size", f"{MIXTURE}.expert.d_ff"),
    integer("num_local_experts", f"{MIXTURE}.n_experts", default=8),
    integer("num_experts_per_tok", ACTIVE, default=2),
    balance_row(),
)
_MOE_NAMES: Names = {
    **NAMES,
    **dict(joint_names(f"{_SPARSE}.input_linear.weight", f"{_SPARSE}.output_linear.weight")),
    **dict(linear(_ROUTER, f"{_SPARSE}.router.layer")),
}
GRANITEMOE = replace(
    decoder_family(
        "granitemoe",
        "GraniteMoe",
        _MOE_ROWS,
        skeleton=skeleton(feed_forward=mixture(router={"normalised": True})),
        names=_MOE_NAMES,
        classifies=False,
    ),
    other_names={
        **dict(joint_names(f"{_SPARSE}.experts.gate_up_proj", f"{_SPARSE}.experts.down_proj")),
        **dict(linear(_ROUTER, f"{_SPARSE}.router")),
    },
)


def _read_shared(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
    if width := attributes["shared_intermediate_size"]:
        set_values(tree, f"{MIXTURE}.shared", {**GATED, "d_ff": width})


def _write_shared(tree: Table) -> Table:
    shared: Table | None = values_at(tree, f"{MIXTURE}.shared")[0]
    return {"shared_intermediate_size": 0 if shared is None else shared["d_ff"]}


_SHARED_PATH = f"{BLOCK}.feed_forward.shared"
GRANITEMOESHARED = replace(
    GRANITEMOE,
    model_type="granitemoeshared",
    heads={
        name.replace("GraniteMoe", "GraniteMoeShared"): head
        for name, head in GRANITEMOE.heads.items()
    },
    rows=(
        Row(
            rules={"shared_intermediate_size": Read(int, 0)}, read=_read_shared, write=_write_shared
        ),
        *GRANITEMOE.rows,
    ),
    names={
        **_MOE_NAMES,
        **dict(fused(_SHARED_PATH, ("gate", "up"), f"{LAYER}.shared_mlp.input_linear")),
        **dict(linear(f"{_SHARED_PATH}.down", f"{LAYER}.shared_mlp.output_linear")),
    },
)
