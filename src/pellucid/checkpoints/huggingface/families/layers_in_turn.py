"""Decoders whose layers take turns: Gemma 3, OLMo 3, SmolLM3, EXAONE 4, Ministral and CWM.

Most layers have a sliding window, some see the whole text. Ministral and CWM differ from Llama in
this alone. Gemma 3 and OLMo 3 rotate both at their
own angles. EXAONE 4 does not rotate in the layers that see the whole text. SmolLM3 does not rotate
in every fourth layer.

Source: Gemma Team 2025, "Gemma 3 Technical Report"; Team OLMo 2025, "Olmo 3"; Bakouch et al. 2025,
"SmolLM3"; LG AI Research 2025, "EXAONE 4.0"; Mistral AI 2024, "Un Ministral, des Ministraux"; FAIR
CodeGen team 2025, "CWM".
"""

from __future__ import annotations

from dataclasses import replace

from pellucid.checkpoints.huggingface.attributes import Ignored, Read, Table
from pellucid.checkpoints.huggingface.config_tree import values_at
from pellucid.checkpoints.huggingface.families.decoders import (
    ATTENTION,
    BIASES,
    FEED,
    HEAD_WIDTH,
    NAMES,
    ONE_RANK,
    RMS_NORM,
    ROTARY,
    ROWS,
    SANDWICH_NAMES,
    decoder_family,
    skeleton,
    windows_row,
)
from pellucid.checkpoints.huggingface.families.gemma2 import GEMMA_ROWS
from pellucid.checkpoints.huggingface.families.llama import OLMO2, OUTPUT_NORM_NAMES
from pellucid.checkpoints.huggingface.layer_rotary import LayerBase, layer_rotary_row
from pellucid.checkpoints.huggingface.mapping import (
    DirectoryContents,
    Row,
    fixed,
    flag,
    integer,
    number,
    same_as,
)
from pellucid.checkpoints.huggingface.rotary import rotary_row, rotary_row_with_default
from pellucid.errors import CheckpointError

_EPS = "decoder.norm.eps", f"{ATTENTION}.qk_norm.eps"
#: The schemes of positions are put there by a row.
_NO_SCHEME: Table = {}
_WITH_OFFSET: Table = {**RMS_NORM, "unit_offset": True}


def must_be_off(name: str) -> Row:
    """An attribute that must be false or null."""

    def read(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
        if attributes[name]:
            raise CheckpointError(f"config.json: {name} = true is not handled: it must be false")

    return Row(rules={name: Read(bool, False, or_none=True)}, read=read)


def is_last_of(attributes: Table, name: str, layer: int) -> bool:
    """Whether a layer is the last of a group of as many as the attribute says.

    Raises:
        CheckpointError: the attribute is no whole number that is at least 1.
    """
    size = attributes[name]
    if type(size) is not int or size < 1:
        raise CheckpointError(
            f"config.json: {name} must be a whole number that is at least 1, was {size!r}; or give "
            "the type of each layer in layer_types"
        )
    return (layer + 1) % size == 0


_GEMMA3 = decoder_family(
    "gemma3_text",
    "Gemma3Text",
    (
        *GEMMA_ROWS,
        windows_row(
            lambda attributes, layer: not is_last_of(attributes, "sliding_window_pattern", layer),
            rules={
                "sliding_window_pattern": Read(int, 6),
                "_sliding_window_pattern": Ignored("layer_types says the same"),
            },
        ),
        layer_rotary_row(
            "decoder",
            full=LayerBase("rope_theta", 1e6, scaled=True),
            sliding=LayerBase("rope_local_base_freq", 1e4, scaled=False),
        ),
        number("rms_norm_eps", *_EPS, default=1e-6),
        fixed("attn_logit_softcapping", None),
        number("final_logit_softcapping", "head:LanguageHead.soft_cap", default=None, or_none=True),
        must_be_off("use_bidirectional_attention"),
    ),
    skeleton=skeleton(
        attention={"qk_norm": _WITH_OFFSET},
        norm=_WITH_OFFSET,
        residual="SandwichNorm",
        positions=_NO_SCHEME,
        embedding={"kind": "Embedding", "scaled": True},
    ),
    names={**NAMES, **SANDWICH_NAMES},
)
GEMMA3 = replace(
    _GEMMA3,
    heads={
        name.replace("Gemma3TextForCausalLM", "Gemma3ForCausalLM"): head
        for name, head in _GEMMA3.heads.items()
    },
)

OLMO3 = decoder_family(
    "olmo3",
    "Olmo3",
    (
        *(row for row in OLMO2.rows if "rope_theta" not in row.rules),
        windows_row(lambda attributes, layer: (layer + 1) % 4 != 0),
        layer_rotary_row(
            "decoder",
            full=LayerBase("rope_theta", 5e5, scaled=True),
            sliding=LayerBase(None, 5e5, scaled=False),
        ),
    ),
    skeleton=skeleton(
        attention={"qk_norm": RMS_NORM, "qk_norm_over": "all_heads"},
        residual="OutputNorm",
        positions=_NO_SCHEME,
    ),
    names=OUTPUT_NORM_NAMES,
)


def _rotates(attributes: Table, layer: int) -> bool:
    """Whether a layer of SmolLM3 rotates queries and keys."""
    chosen: list[object] | None = attributes["no_rope_layers"]
    if chosen is None:
        return not is_last_of(attributes, "no_rope_layer_interval", layer)
    if layer >= len(chosen) or chosen[layer] not in (0, 1):
        raise CheckpointError(
            f"config.json: no_rope_layers must have a 0 or a 1 for each layer, was {chosen!r}"
        )
    return bool(chosen[layer])


def _read_rotating_layers(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
    for index, layer in enumerate(tree["decoder"]["layers"]):
        layer["positions"] = {"kind": "Rotary" if _rotates(attributes, index) else "NoPositions"}


def _write_rotating_layers(tree: Table) -> Table:
    kinds: list[str] = values_at(tree, "decoder.layers.positions.kind")
    return {"no_rope_layers": [int(kind == "Rotary") for kind in kinds]}


SMOLLM3 = decoder_family(
    "smollm3",
    "SmolLM3",
    (
        *ROWS,
        integer(
            "num_key_value_heads",
            f"{ATTENTION}.n_kv_heads",
            default=replace(same_as("num_attention_heads"), absent=4),
        ),
        Row(
            rules={
                "no_rope_layers": Read(list, None),
                "no_rope_layer_interval": Read(int, 4),
            },
            read=_read_rotating_layers,
            write=_write_rotating_layers,
        ),
        rotary_row(base=2e6),
        windows_row(
            lambda attributes, layer: not _rotates(attributes, layer),
            default=None,
            enabled=lambda attributes: attributes["use_sliding_window"],
            rules={"use_sliding_window": Read(bool, False)},
            describe=lambda windows: {"use_sliding_window": any(windows)},
        ),
        flag("attention_bias", *BIASES, default=False),
        flag("mlp_bias", f"{FEED}.bias", default=False),
        flag("tie_word_embeddings", "embedding.tied", default=True),
    ),
    skeleton=skeleton(positions=_NO_SCHEME),
    absent_ids=("pad_token_id",),
)


def _read_full_layers(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
    """EXAONE 4: if there is a size of windows, only layers with a window rotate."""
    has_windows = attributes["sliding_window"] is not None
    for layer in tree["decoder"]["layers"]:
        rotates = not has_windows or layer["attention"].get("window") is not None
        layer["positions"] = {"kind": "Rotary" if rotates else "NoPositions"}


def _write_full_layers(tree: Table) -> Table:
    kinds: list[str] = values_at(tree, "decoder.layers.positions.kind")
    # without windows nothing else says that no layer rotates
    return {} if "Rotary" in kinds else {"sliding_window": tree["context_length"]}


EXAONE4 = decoder_family(
    "exaone4",
    "Exaone4",
    (
        *ROWS,
        integer("num_key_value_heads", f"{ATTENTION}.n_kv_heads", default=32),
        number("rms_norm_eps", *_EPS, default=1e-5),
        windows_row(
            lambda attributes, layer: not is_last_of(attributes, "sliding_window_pattern", layer),
            rules={"sliding_window_pattern": Read(object, 4)},
        ),
        Row(rules={}, read=_read_full_layers, write=_write_full_layers),
        rotary_row(),
    ),
    skeleton=skeleton(attention={"qk_norm": RMS_NORM}, residual="OutputNorm", positions=_NO_SCHEME),
    names=OUTPUT_NORM_NAMES,
)

MINISTRAL = decoder_family(
    "ministral",
    "Ministral",
    (
        *ROWS,
        ROTARY,
        integer(
            "num_key_value_heads",
            f"{ATTENTION}.n_kv_heads",
            default=replace(same_as("num_attention_heads"), absent=8),
        ),
        windows_row(lambda attributes, layer: True),
    ),
    skeleton=skeleton(),
)

#: What `transformers` takes if a file says nothing.
_CWM_SCALING: Table = {
    "rope_type": "llama3",
    "factor": 16.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
CWM = decoder_family(
    "cwm",
    "Cwm",
    (
        *ROWS,
        rotary_row_with_default(_CWM_SCALING, base=1e6),
        integer("head_dim", f"{ATTENTION}.d_head", default=replace(HEAD_WIDTH, absent=128)),
        number("rms_norm_eps", "decoder.norm.eps", default=1e-5),
        windows_row(lambda attributes, layer: layer % 4 != 0, default=8192),
        fixed("mlp_bias", False),
        ONE_RANK,
    ),
    skeleton=skeleton(),
    classifies=False,
)
