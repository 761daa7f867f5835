"""Gemma 2 and VaultGemma: soft caps, every other layer a sliding window.

Gemma 2 has norms on both sides of each layer, VaultGemma only before it.

Source: Gemma Team 2024, "Gemma 2: Improving Open Language Models at a Practical Size"; Sinha et al.
2025, "VaultGemma: A Differentially Private Gemma Model".
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
    LAYER,
    NAMES,
    ROTARY,
    ROWS,
    SANDWICH_NAMES,
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
from pellucid.checkpoints.huggingface.names import norm
from pellucid.config.checks import positive

_SCALAR = "query_pre_attn_scalar"


def scalar_row(default: float = 256.0) -> Row:
    """The factor of the scores, as the number whose inverse root it is."""

    def read(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
        scalar: float = attributes[_SCALAR]
        positive(_SCALAR, scalar)
        is_default = scalar == values_at(tree, f"{ATTENTION}.d_head")[0]
        set_values(tree, f"{ATTENTION}.scale", None if is_default else scalar**-0.5)

    def write(tree: Table) -> Table:
        scale, d_head = (values_at(tree, f"{ATTENTION}.{key}")[0] for key in ("scale", "d_head"))
        # the whole number whose inverse root is the scale, or the nearest to it
        return {_SCALAR: d_head if scale is None else max(1, round(scale**-2))}

    return Row(rules={_SCALAR: Read(float, default)}, read=read, write=write)


#: What Gemma 3 has too.
GEMMA_ROWS: tuple[Row, ...] = (
    *(row for row in ROWS if "hidden_act" not in row.rules),
    activation("hidden_activation", f"{FEED}.activation", default="gelu_pytorch_tanh"),
    ignored("`transformers` reads hidden_activation", "hidden_act"),
    integer("head_dim", f"{ATTENTION}.d_head", default=256),
    flag("tie_word_embeddings", "embedding.tied", default=True),
    flag("attention_bias", *BIASES, default=False),
    scalar_row(),
)

_ROWS: tuple[Row, ...] = (
    *GEMMA_ROWS,
    ROTARY,
    windows_row(lambda attributes, layer: layer % 2 == 0),
    ignored("repeats sliding_window", "sliding_window_size"),
    number("attn_logit_softcapping", f"{ATTENTION}.soft_cap", default=50.0, or_none=True),
    number("final_logit_softcapping", "head:LanguageHead.soft_cap", default=30.0, or_none=True),
    fixed("use_bidirectional_attention", None),
)


def _skeleton(residual: str) -> Table:
    return skeleton(
        norm={"kind": "RMSNorm", "unit_offset": True},
        residual=residual,
        embedding={"kind": "Embedding", "scaled": True},
    )


GEMMA2 = decoder_family(
    "gemma2",
    "Gemma2",
    _ROWS,
    skeleton=_skeleton("SandwichNorm"),
    names={**NAMES, **SANDWICH_NAMES},
)
VAULTGEMMA = decoder_family(
    "vaultgemma",
    "VaultGemma",
    _ROWS,
    skeleton=_skeleton("PreNorm"),
    names={
        **NAMES,
        **dict(norm(f"{BLOCK}.feed_forward_norm", f"{LAYER}.pre_feedforward_layernorm")),
    },
    classifies=False,
)
