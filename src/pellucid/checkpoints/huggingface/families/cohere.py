"""Cohere's Command models: attention and feed-forward read one norm, and logits are scaled.

Command R can normalise queries and keys, with a gain for each feature of each head. Command R7B
(Cohere 2) has windows and rotary positions in three of four layers, and no positions in the others.

Source: Cohere 2024, "Command R" and "Command R7B" (released code); Cohere 2025, "Command A".
"""

from __future__ import annotations

from pellucid.checkpoints.huggingface.activations import activation
from pellucid.checkpoints.huggingface.attributes import Read, Table
from pellucid.checkpoints.huggingface.config_tree import set_values, values_at
from pellucid.checkpoints.huggingface.families.decoders import (
    ATTENTION,
    BIASES,
    BLOCK,
    FEED,
    HEAD_DIM,
    KEY_VALUE_HEADS,
    LAYER,
    NAMES,
    SIZES,
    decoder_family,
    skeleton,
    windows_row,
)
from pellucid.checkpoints.huggingface.mapping import (
    DirectoryContents,
    Row,
    fixed,
    flag,
    ignored,
    integer,
    number,
)
from pellucid.checkpoints.huggingface.names import Names, Source
from pellucid.checkpoints.huggingface.rotary import rotary_row


def head_norms(name: str) -> Row:
    """Whether queries and keys are normalised, with a gain of each head's own."""

    def read(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
        if attributes[name]:
            set_values(tree, f"{ATTENTION}.qk_norm", {"kind": "LayerNorm", "bias": False})
            set_values(tree, f"{ATTENTION}.qk_norm_over", "each_head_own_gain")

    return Row(
        rules={name: Read(bool, False)},
        read=read,
        write=lambda tree: {name: values_at(tree, f"{ATTENTION}.qk_norm")[0] is not None},
    )


_ROWS = (
    *SIZES,
    integer("max_position_embeddings", "context_length", default=8192),
    KEY_VALUE_HEADS,
    HEAD_DIM,
    activation("hidden_act", f"{FEED}.activation", default="silu"),
    flag("attention_bias", *BIASES, default=False),
    number("logit_scale", "head:LanguageHead.multiplier", default=0.0625),
    flag("tie_word_embeddings", "embedding.tied", default=True),
    ignored("the same products in another order", "pretraining_tp"),
)


def _skeleton(positions: Table) -> Table:
    norm: Table = {"kind": "LayerNorm", "bias": False}
    table = skeleton(norm=norm, residual="Parallel", positions=positions)
    table["decoder"]["residual"]["shared_norm"] = True
    return table


_EPS = "decoder.norm.eps"
_GAINS: Names = {
    f"{BLOCK}.attention.query_norm.gain": Source(
        f"{LAYER}.self_attn.q_norm.weight", groups="heads"
    ),
    f"{BLOCK}.attention.key_norm.gain": Source(
        f"{LAYER}.self_attn.k_norm.weight", groups="kv_heads"
    ),
}

COHERE = decoder_family(
    "cohere",
    "Cohere",
    (
        *_ROWS,
        rotary_row(base=500_000.0, interleaved=True),
        head_norms("use_qk_norm"),
        number("layer_norm_eps", _EPS, f"{ATTENTION}.qk_norm?.eps", default=1e-5),
    ),
    skeleton=_skeleton({"kind": "Rotary"}),
    names={**NAMES, **_GAINS},
    classifies=False,
)


def _read_positions(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
    for layer in tree["decoder"]["layers"]:
        rotates = "window" in layer["attention"]
        layer["positions"] = {"kind": "Rotary" if rotates else "NoPositions"}


COHERE2 = decoder_family(
    "cohere2",
    "Cohere2",
    (
        *_ROWS,
        windows_row(
            lambda attributes, layer: (layer + 1) % attributes["sliding_window_pattern"] != 0,
            rules={"sliding_window_pattern": Read(int, 4)},
        ),
        Row(rules={}, read=_read_positions),
        rotary_row(interleaved=True),
        number("layer_norm_eps", _EPS, default=1e-5),
        fixed("use_qk_norm", False),
        ignored("how the cache is kept", "cache_implementation"),
    ),
    skeleton=_skeleton({}),
    names=NAMES,
    classifies=False,
)
