from __future__ import annotations

import pytest
import torch

from pellucid.config import GatedMLP, Rotary
from pellucid.counting import parameter_count
from pellucid.errors import ConfigError
from pellucid.model import assemble
from pellucid.presets import PRESETS, diff, find

#: What the released checkpoints hold.
PUBLISHED = {
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "llama2-7b": 6_738_415_616,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_counting_gives_the_published_number_of_parameters(name: str) -> None:
    assert parameter_count(find(name).model) == PUBLISHED[name]


@pytest.mark.parametrize("name", PUBLISHED)
def test_assembled_model_has_the_published_number_of_parameters(name: str) -> None:
    with torch.device("meta"):
        model = assemble(find(name).model, seed=0)
    assert all(parameter.is_meta for parameter in model.parameters())
    assert sum(parameter.numel() for parameter in model.parameters()) == PUBLISHED[name]


def test_every_preset_of_a_published_model_has_its_published_size_checked() -> None:
    assert set(PRESETS) - set(PUBLISHED) == {"nano"}


def test_gpt2_and_its_medium_sister_differ_in_a_handful_of_numbers() -> None:
    assert diff(find("gpt2"), find("gpt2-medium")) == {
        "model.d_model": (768, 1024),
        "model.decoder.n_layers": (12, 24),
        "model.decoder.attention.n_heads": (12, 16),
        "model.decoder.attention.n_kv_heads": (12, 16),
        "model.decoder.feed_forward.d_ff": (3072, 4096),
        "optimiser.learning_rate": (6e-4, 3e-4),
    }


def test_diff_shows_kinds_and_marks_what_one_side_lacks() -> None:
    table = diff(find("gpt2"), find("llama2-7b"))
    assert table["model.decoder.positions.kind"] == ("Learned", "Rotary")
    assert table["model.decoder.positions.base"] == ("-", 10_000.0)
    assert table["model.decoder.norm.bias"] == (True, "-")
    assert diff(find("llama2-7b"), find("gpt2")).keys() == table.keys()


@pytest.mark.parametrize("name", PRESETS)
def test_preset_does_not_differ_from_itself(name: str) -> None:
    assert diff(find(name), find(name)) == {}


def test_llama_is_made_of_llamas_parts() -> None:
    decoder = find("llama2-7b").model.decoder
    assert isinstance(decoder.positions, Rotary)
    assert isinstance(decoder.feed_forward, GatedMLP)


@pytest.mark.parametrize("name", PUBLISHED)
def test_heads_of_a_published_model_fill_its_width(name: str) -> None:
    model = find(name).model
    attention = model.decoder.attention
    assert attention.n_heads * attention.d_head == model.d_model


def test_unknown_name_is_refused_with_the_nearest_and_all_others() -> None:
    with pytest.raises(ConfigError) as refusal:
        find("gpt-2")
    assert str(refusal.value) == (
        "unknown preset 'gpt-2'; did you mean 'gpt2'; "
        "presets: nano, gpt2, gpt2-medium, gpt2-large, gpt2-xl, llama2-7b"
    )
