"""Settings of published families that a config cannot say are refused by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pellucid import config
from pellucid.checkpoints.huggingface import FAMILIES
from pellucid.checkpoints.huggingface.attributes import read_attributes
from pellucid.checkpoints.huggingface.mapping import DirectoryContents, Unfit
from pellucid.errors import CheckpointError
from support.published import ATTRIBUTES, config_of

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
    "two numbers of experts": (
        "Qwen3MoeForCausalLM",
        {"num_experts": 4, "num_local_experts": 8},
        "config.json has num_experts 4 and num_local_experts 8: remove one",
    ),
    "another least sum of weights": (
        "Ernie4_5_MoeForCausalLM",
        {"moe_norm_min": 1e-3},
        "moe_norm_min = 0.001 is not handled",
    ),
    "experts at no interval": (
        "Ernie4_5_MoeForCausalLM",
        {"moe_layer_interval": 0},
        "moe_layer_interval must be at least 1, was 0",
    ),
    "another choice of experts": (
        "DeepseekV2ForCausalLM",
        {"topk_method": "noaux_tc"},
        "topk_method = 'noaux_tc' is not handled; those that are: greedy, group_limited_greedy",
    ),
    "another vector of a text": (
        "ModernBertForSequenceClassification",
        {"classifier_pooling": "max"},
        "classifier_pooling = 'max' is not handled; those that are: cls, mean",
    ),
}


def read(architecture: str, attributes: dict[str, Any]) -> None:
    family = next(f for f in FAMILIES.values() if architecture in f.architectures)
    all_attributes = {**ATTRIBUTES[family.model_type], **attributes}
    table = read_attributes(all_attributes, family.rules, family=family.model_type)
    family.read(table, DirectoryContents(architecture, frozenset()))


def test_experts_at_uneven_intervals_are_no_ernie() -> None:
    def read_sparse(*sparse: bool) -> dict[str, Any]:
        parts = (config_of("ernie4_5_moe", moe_layer_start_index=start) for start in (0, 9))
        mixture, dense = (model.decoder.feed_forward for model in parts if model.decoder)
        model = config_of("ernie4_5_moe", num_hidden_layers=len(sparse))
        assert model.decoder is not None
        layers = tuple(mixture if is_sparse else dense for is_sparse in sparse)
        alternating = config.AlternatingFeedForward(layers=layers)  # type: ignore[arg-type]
        decoder = replace(model.decoder, feed_forward=alternating)
        return FAMILIES["ernie4_5_moe"].describe(replace(model, decoder=decoder))

    table = read_sparse(False, True, False, True, False)
    keys = ("moe_layer_start_index", "moe_layer_end_index", "moe_layer_interval")
    assert [table[key] for key in keys] == [1, 3, 2]
    with pytest.raises(Unfit, match="uneven intervals"):
        read_sparse(True, False, True)  # every second layer, but from the first on
    with pytest.raises(Unfit, match="uneven intervals"):
        read_sparse(True, True, False, True)


def test_an_encoder_whose_layers_are_not_shared_is_no_albert() -> None:
    model = config_of("albert")
    assert model.encoder is not None
    own_layers = replace(model, encoder=replace(model.encoder, shared_layers=None))
    with pytest.raises(Unfit, match=r"encoder\.shared_layers is absent, but this family has it"):
        FAMILIES["albert"].describe(own_layers)


@pytest.mark.parametrize("case", REFUSED)
def test_a_setting_that_a_config_cannot_say_is_refused(case: str) -> None:
    architecture, attributes, message = REFUSED[case]
    read(architecture, {})
    with pytest.raises(CheckpointError) as refused:
        read(architecture, attributes)
    assert message in str(refused.value)
