"""Families that pellucid cannot hold are refused by name, in words that say why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pellucid.checkpoints.huggingface import FAMILIES, open_published
from pellucid.checkpoints.huggingface.families import REFUSED
from pellucid.errors import CheckpointError
from support.published import write

#: Families whose layers are no attention, or not all of them.
NOT_TRANSFORMERS = (
    *("mamba", "mamba2", "falcon_mamba", "jamba", "zamba", "zamba2", "bamba", "falcon_h1", "rwkv"),
    *("nemotron_h", "granitemoehybrid", "qwen3_next", "lfm2", "lfm2_moe", "recurrent_gemma"),
    *("kimi_linear", "olmo_hybrid", "minimax", "xlstm"),
)


def refusal(folder: Path, model_type: str) -> str:
    write(folder)
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "model_type": model_type}))
    with pytest.raises(CheckpointError) as caught:
        open_published(folder)
    return str(caught.value)


def test_no_family_is_both_handled_and_refused() -> None:
    assert not FAMILIES.keys() & REFUSED.keys()


@pytest.mark.parametrize("name", NOT_TRANSFORMERS)
def test_a_recurrent_model_is_outside_the_ground(name: str, tmp_path: Path) -> None:
    message = refusal(tmp_path / "model", name)
    assert f"the family {name!r}, whose layers keep a recurrent state" in message
    assert "outside the ground of pellucid" in message


@pytest.mark.parametrize("name", ["llava", "qwen2_5_vl", "gemma3", "paligemma", "mistral3"])
def test_a_model_of_pictures_is_refused_by_name(name: str, tmp_path: Path) -> None:
    assert "reads pictures, films or sound" in refusal(tmp_path / "model", name)


@pytest.mark.parametrize("name", ["whisper", "wav2vec2", "voxtral"])
def test_a_model_of_sound_is_refused_by_name(name: str, tmp_path: Path) -> None:
    assert "reads or writes sound" in refusal(tmp_path / "model", name)


@pytest.mark.parametrize(
    "name", ["apertus", "blenderbot-small", "esm", "ministral3", "nanochat", "phimoe"]
)
def test_another_computation_is_named(name: str, tmp_path: Path) -> None:
    message = refusal(tmp_path / "model", name)
    assert message == f"config.json names the family {name!r}, {REFUSED[name]}"


def test_an_unknown_family_gets_those_with_a_similar_name(tmp_path: Path) -> None:
    message = refusal(tmp_path / "model", "qwen9")
    assert "similar name are qwen" in message
    assert f"the {len(FAMILIES)} families" in message


@pytest.mark.parity
def test_every_refused_family_is_one_of_transformers() -> None:
    transformers: Any = pytest.importorskip("transformers")
    model_types = transformers.models.auto.configuration_auto.CONFIG_MAPPING_NAMES
    assert not REFUSED.keys() - set(model_types)
