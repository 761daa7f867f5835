"""Blenderbot, PLBart and M2M-100: encoder-decoders in the way of BART.

    Blenderbot  learned positions from row 0, norms before each layer and at the end
    PLBart      a BART of programs: the same model with other defaults
    M2M-100     sinusoids that begin behind the padding id, norms before each layer and at the end;
                NLLB is one

Source: Roller et al. 2021, "Recipes for Building an Open-Domain Chatbot"; Ahmad et al. 2021,
"Unified Pre-training for Program Understanding and Generation"; Fan et al. 2020, "Beyond
English-Centric Multilingual Machine Translation"; NLLB Team 2022, "No Language Left Behind".
"""

from __future__ import annotations

from pellucid.checkpoints.huggingface.attributes import Read, Table
from pellucid.checkpoints.huggingface.config_tree import set_values, values_at
from pellucid.checkpoints.huggingface.families.bart import BART_ROWS, LEARNED, pair_family
from pellucid.checkpoints.huggingface.family import LANGUAGE_HEAD
from pellucid.checkpoints.huggingface.mapping import (
    DirectoryContents,
    Row,
    Unfit,
    fixed,
    ignored,
)


def _defaults(**values: object) -> Row:
    """Other defaults of attributes that BART has too."""
    return Row(rules={name: Read(type(value), value) for name, value in values.items()})


def _sizes(layers: int, heads: int, width: int) -> dict[str, int]:
    """The layers, heads and feed-forward widths of two equal stacks."""
    sizes = {"layers": layers, "attention_heads": heads, "ffn_dim": width}
    return {f"{s}_{key}": n for s in ("encoder", "decoder") for key, n in sizes.items()}


BLENDERBOT = pair_family(
    "blenderbot",
    "Blenderbot",
    "BlenderbotForConditionalGeneration",
    "PreNorm",
    {"kind": "Learned"},
    _defaults(
        vocab_size=8008,
        max_position_embeddings=128,
        d_model=2560,
        **{**_sizes(24, 32, 10240), "encoder_layers": 2},
    ),
    fixed("normalize_before", True),
    fixed("layernorm_variant", "prelayernorm"),
    fixed("add_final_layer_norm", True),
    fixed("extra_layer_norm", False),
    fixed("normalize_embedding", False),
    fixed("add_bias_logits", False),
    fixed("static_position_embeddings", False),
    ignored("nothing reads it", "do_blenderbot_90_layernorm"),
    embedding_norm=False,
)
PLBART = pair_family(
    "plbart",
    "PLBart",
    "PLBartForConditionalGeneration",
    "PostNorm",
    LEARNED,
    *BART_ROWS,
    _defaults(
        vocab_size=50005,
        d_model=768,
        attention_dropout=0.1,
        scale_embedding=True,
        **_sizes(6, 12, 3072),
    ),
    embedding_norm=True,
)

_OFFSETS = tuple(f"{stack}.layers.positions.offset" for stack in ("encoder", "decoder"))


def _read_offset(attributes: Table, tree: Table, stored: DirectoryContents) -> None:
    for path in _OFFSETS:
        set_values(tree, path, attributes["pad_token_id"] + 1)


def _write_offset(tree: Table) -> Table:
    offsets = {value for path in _OFFSETS for value in values_at(tree, path)}
    if len(offsets) > 1 or not min(offsets):
        raise Unfit("positions.offset is 0 or differs, but here it is one that is at least 1")
    return {"pad_token_id": min(offsets) - 1}


M2M_100 = pair_family(
    "m2m_100",
    "M2M100",
    "M2M100ForConditionalGeneration",
    "PreNorm",
    {"kind": "Sinusoidal", "base": 1e4, "pairing": "half_split", "down_to_base": True},
    _defaults(
        vocab_size=128112,
        activation_function="relu",
        attention_dropout=0.1,
        scale_embedding=True,
    ),
    Row(rules={"pad_token_id": Read(int, 1)}, read=_read_offset, write=_write_offset),
    fixed("normalize_before", True),
    embedding_norm=False,
    head=LANGUAGE_HEAD,
)
