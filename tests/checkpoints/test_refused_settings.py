"""Settings of published families that a config cannot say are refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from pellucid.checkpoints.huggingface import FAMILIES
from pellucid.checkpoints.huggingface.attributes import read_attributes
from pellucid.checkpoints.huggingface.mapping import DirectoryContents
from pellucid.errors import CheckpointError
from support.published import ATTRIBUTES

#: The class, the settings, and what the refusal says.
REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "narrow states without a head": (
        "OPTModel",
        {"word_embed_proj_dim": 8},
        "word_embed_proj_dim = 8 is not handled in OPTModel: it must be hidden_size, 16",
    ),
    "narrow states before classes": (
        "OPTForSequenceClassification",
        {"word_embed_proj_dim": 8},
        "word_embed_proj_dim = 8 is not handled in OPTForSequenceClassification",
    ),
    "no layer sees the whole text": (
        "ModernBertForMaskedLM",
        {"global_attn_every_n_layers": 0},
        "global_attn_every_n_layers must be at least 1, was 0",
    ),
    "another kind of layer": (
        "ModernBertForMaskedLM",
        {"layer_types": ["full_attention", "chunked_attention"]},
        "layer_types names 'chunked_attention', which is not handled",
    ),
    "another vector of a text": (
        "ModernBertForSequenceClassification",
        {"classifier_pooling": "max"},
        "classifier_pooling = 'max' is not handled; those that are: cls, mean",
    ),
}


def read(architecture: str, attributes: dict[str, Any]) -> None:
    family = next(f for f in FAMILIES.values() if architecture in f.architectures)
    whole = {**ATTRIBUTES[family.model_type], **attributes}
    table = read_attributes(whole, family.rules, family=family.model_type)
    family.read(table, DirectoryContents(architecture, frozenset()))


@pytest.mark.parametrize("case", REFUSED)
def test_a_setting_that_a_config_cannot_say_is_refused(case: str) -> None:
    architecture, attributes, said = REFUSED[case]
    read(architecture, {})
    with pytest.raises(CheckpointError) as refused:
        read(architecture, attributes)
    assert said in str(refused.value)
