"""The config.json of released models: accepted, counted, and with the names of `transformers`.

`published_configs.json` holds the files as they were published, with their addresses. Their weights
are not needed: both sides are built without memory, and the headers of the files are made up from
the class of `transformers`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid.checkpoints.huggingface import FAMILIES, Published, open_published, read
from pellucid.checkpoints.huggingface.attributes import (
    REQUIRED,
    Derived,
    FixedValue,
    read_attributes,
)
from pellucid.checkpoints.huggingface.directory import Stored
from pellucid.checkpoints.huggingface.mapping import DirectoryContents
from pellucid.counting import parameter_count
from pellucid.model import assemble
from support.published_defaults import FILE, published_defaults
from support.reference import quiet

CONTENT = json.loads((Path(__file__).parent / "published_configs.json").read_text("utf-8"))
MODELS: dict[str, dict[str, Any]] = {model["name"]: model for model in CONTENT["models"]}
READABLE = [name for name in MODELS if MODELS[name]["attributes"]["model_type"] in FAMILIES]


def test_every_file_has_its_address_and_none_is_missing_too() -> None:
    assert MODELS
    for name, model in MODELS.items():
        assert model["source"], name
        assert model["attributes"]["model_type"], name
    assert not MODELS.keys() & set(CONTENT["without_source"])


@pytest.mark.parametrize("name", READABLE)
def test_the_file_is_accepted_and_counted(name: str) -> None:
    attributes = MODELS[name]["attributes"]
    family = FAMILIES[attributes["model_type"]]
    architecture = (attributes.get("architectures") or family.architectures)[0]
    table = read_attributes(attributes, family.rules, family=family.model_type)
    model = family.read(table, DirectoryContents(architecture, frozenset()))
    with torch.device("meta"):
        built = assemble(model, seed=0)
    assert parameter_count(model) == sum(parameter.numel() for parameter in built.parameters())


DEFAULTS: dict[str, dict[str, Any]] = json.loads(FILE.read_text("utf-8"))
#: Attributes whose default here is another value, with the reason.
OTHERWISE: dict[str, str] = {
    "classifier_dropout": "without it, the rate of the layers is used",
    "classifier_dropout_prob": "without it, the rate of the layers is used",
    "initializer_range": "changes training alone",
    "moe_layer_end_index": "-1 is the last layer, which a default model has as a number",
    "deepseek_v2.num_key_value_heads": "latent attention has keys for every head",
    "deepseek_v3.num_key_value_heads": "latent attention has keys for every head",
    "num_kv_heads": "without it, as many as there are heads",
    "qwen3_moe.num_local_experts": "another name of an attribute that is read",
    "original_max_position_embeddings": "without it, the length of the context",
    "scale_decoder_outputs": "without it, as tie_word_embeddings says",
    "seq_classif_dropout": "without it, the rate of the layers is used",
    "vocab_size": "the sizes of tensors are compared with it",
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_missing_attribute_means_what_it_means_to_transformers(name: str) -> None:
    defaults = DEFAULTS[name]
    compared = 0
    for attribute, rule in FAMILIES[name].rules.items():
        default_of_rule = (
            rule.value if isinstance(rule, FixedValue) else getattr(rule, "default", REQUIRED)
        )
        if isinstance(default_of_rule, Derived):
            default_of_rule = default_of_rule.absent or REQUIRED
        if attribute == "sliding_window" and not defaults.get(attribute):
            continue  # null or 0 there unless use_sliding_window is true
        is_same = {attribute, f"{name}.{attribute}"}.isdisjoint(OTHERWISE)
        if default_of_rule is not REQUIRED and attribute in defaults and is_same:
            assert default_of_rule == defaults[attribute], attribute
            compared += 1
    assert compared >= 3


@pytest.mark.parity
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", DEFAULTS)
def test_a_default_follows_from_the_width_where_it_does_in_transformers(name: str) -> None:
    transformers: Any = pytest.importorskip("transformers")
    quiet(transformers)
    config_class = transformers.models.auto.configuration_auto.CONFIG_MAPPING[name]
    sizes = ("hidden_size", "num_attention_heads", "n_embd", "n_head", "d_model")
    wider = {size: 2 * DEFAULTS[name][size] for size in sizes if DEFAULTS[name].get(size)}
    reference_config = config_class(**wider)
    for attribute, rule in FAMILIES[name].rules.items():
        default = getattr(rule, "default", None)
        value = getattr(reference_config, attribute, None)
        if isinstance(default, Derived) and isinstance(value, int):
            expected_default = default.absent or default.value({**DEFAULTS[name], **wider})
            assert expected_default == value, attribute


@pytest.mark.parity
@pytest.mark.filterwarnings("default")
def test_the_file_of_defaults_is_that_of_transformers() -> None:
    quiet(pytest.importorskip("transformers"))
    assert published_defaults() == DEFAULTS


@pytest.mark.parity
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", READABLE)
def test_names_and_shapes_are_those_of_the_class(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attributes = MODELS[name]["attributes"]
    reference_tensors = built_by_transformers(attributes)
    published = opened(attributes, reference_tensors, tmp_path, monkeypatch)
    # `open_published` has compared every name and shape
    unread = [reference_tensors[stored].numel() for stored in published.ignored_tensors]
    stored = {name for names in published.places.values() for name in names}
    assert sum(reference_tensors[name].numel() for name in stored) + sum(unread) == sum(
        tensor.numel() for tensor in reference_tensors.values()
    )
    with torch.device("meta"):
        model = assemble(published.model, seed=0)
    assert sum(reference_tensors[name].numel() for name in stored) == sum(
        tensor.numel() for tensor in model.state_dict().values()
    )


def built_by_transformers(attributes: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The tensors of the class, each once, as its files have them."""
    transformers: Any = pytest.importorskip("transformers")
    quiet(transformers)
    config_class = transformers.models.auto.configuration_auto.CONFIG_MAPPING[
        attributes["model_type"]
    ]
    settings = config_class.from_dict(dict(attributes))
    with torch.device("meta"):
        model = getattr(transformers, attributes["architectures"][0])(settings)
    saved = model.state_dict().keys()
    buffers = {key: buffer for key, buffer in model.named_buffers() if key in saved}
    return {**dict(model.named_parameters()), **buffers}


def opened(
    attributes: dict[str, Any],
    theirs: dict[str, torch.Tensor],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Published:
    """How pellucid reads a directory with this config.json and tensors of these shapes."""

    class Headers:
        def __init__(self, folder: Path) -> None:
            self.folder = folder
            self.stored = {
                key: Stored(folder / "model.safetensors", tuple(tensor.shape), "F32")
                for key, tensor in theirs.items()
            }

    (folder / "config.json").write_text(json.dumps(attributes))
    monkeypatch.setattr(read, "Shards", Headers)
    return open_published(folder)
