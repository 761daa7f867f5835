"""A run leaves for `transformers` and comes back the same; whatever its family lacks is filled."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import pellucid
from pellucid import config, runs
from pellucid.checkpoints.huggingface import FAMILIES, choose_family, complete
from pellucid.cli import main
from pellucid.data.chat.templates import PLAIN
from pellucid.errors import CheckpointError, ConfigError
from pellucid.model import assemble
from pellucid.presets import PRESETS
from support.exported import filled, small_preset, untrained, weights
from support.models import BASE, with_stack

#: Presets that no class of `transformers` holds: they leave in our own form.
OWN = ("nano-experts", "nano-encoder", "nano-pair", "transformer-base", "transformer-big")


@pytest.mark.parametrize("name", PRESETS)
def test_the_model_of_every_preset_leaves(name: str) -> None:
    model = small_preset(name)
    with torch.device("meta"):
        tensors = dict(assemble(model, seed=0).named_parameters())
    if name in OWN:
        with pytest.raises(CheckpointError, match="no family of transformers"):
            complete(model, tensors)
    else:
        completed = complete(model, tensors)
        assert choose_family(completed.model, completed.tensors)[0].model_type in FAMILIES


def test_zeros_complete_the_quick_start_and_change_no_logit() -> None:
    model = small_preset("nano")
    tensors = weights(model)
    completed = complete(model, tensors)
    assert choose_family(completed.model, completed.tensors)[0].model_type == "gpt_neox"
    assert "biases in its norms and biases in its feed-forward layers" in completed.note
    ids = torch.randint(0, 262, (2, 17), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        completed_logits = filled(completed.model, dict(completed.tensors))(ids)
        expected = filled(model, tensors)(ids)
    torch.testing.assert_close(completed_logits, expected, rtol=0, atol=1e-5)


def test_a_table_of_zeros_completes_an_encoder_without_segments() -> None:
    model = small_preset("bert-base")
    model = replace(model, embedding=replace(model.embedding, segments=None))
    completed = complete(model, weights(model))
    assert "vectors of segments" in completed.note
    assert "a copy of the embedding" not in completed.note
    assert not completed.tensors["segment_embedding.weight"].any()


def test_a_model_that_needs_other_numbers_is_not_completed() -> None:
    model = with_stack(residual=config.NoResidual())
    with pytest.raises(CheckpointError, match="no family of transformers"):
        complete(model, weights(model))


@pytest.mark.parametrize("name", ["nano", "nano-encoder", "nano-pair", "transformer-base"])
def test_what_is_exported_opens_here_with_the_same_weights(name: str, tmp_path: Path) -> None:
    changes = {"d_model": 32} if name == "transformer-base" else {}
    model = small_preset(name, **changes)
    run = untrained(tmp_path / "run", model)
    exported = runs.export_run(run, tmp_path / "out")
    first, reopened = pellucid.load(run), pellucid.load(tmp_path / "out")
    is_own_family = (
        json.loads((tmp_path / "out" / "config.json").read_text())["model_type"] == "pellucid"
    )
    assert is_own_family == (name in OWN)
    assert is_own_family == any("import pellucid.transformers" in note for note in exported.notes)
    for key, tensor in first.model.state_dict().items():
        assert torch.equal(reopened.model.state_dict()[key], tensor), key
    imported = runs.import_model(tmp_path / "out", tmp_path / "back")
    assert imported.family == ("pellucid" if is_own_family else "gpt_neox")


def test_a_file_of_ours_that_is_damaged_is_refused_by_name(tmp_path: Path) -> None:
    run = untrained(tmp_path / "run", small_preset("nano-encoder"))
    runs.export_run(run, tmp_path / "out")
    file = tmp_path / "out" / "config.json"
    table = json.loads(file.read_text())
    table["transformer"]["d_model"] = 0
    file.write_text(json.dumps(table))
    with pytest.raises(CheckpointError, match="d_model"):
        pellucid.load(tmp_path / "out")
    table["transformer"] = "all of it"
    file.write_text(json.dumps(table))
    with pytest.raises(CheckpointError, match="transformer"):
        pellucid.load(tmp_path / "out")


def test_an_encoder_of_ours_keeps_its_running_statistics(tmp_path: Path) -> None:
    norm = config.BatchNorm(eps=1e-5, momentum=0.1)
    model = replace(with_stack(norm=norm), vocab_size=262)
    run = untrained(tmp_path / "run", model)
    runs.export_run(run, tmp_path / "out")
    before, after = (pellucid.load(p).model.state_dict() for p in (run, tmp_path / "out"))
    assert any("running_mean" in name for name in before)
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())


def test_the_template_leaves_and_comes_back_to_the_same_prompt(tmp_path: Path) -> None:
    run = untrained(tmp_path / "run", small_preset("nano"), template=PLAIN)
    runs.export_run(run, tmp_path / "out")
    runs.import_model(tmp_path / "out", tmp_path / "back")
    prompts = {
        str(place): tuple(runs.answer(pellucid.load(place), "Why?", runs_greedy())[0].ids)
        for place in (run, tmp_path / "out", tmp_path / "back")
    }
    assert len(set(prompts.values())) == 1
    settings = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    assert settings["do_sample"] is False


def runs_greedy() -> object:
    from pellucid.generation import Sampling

    return Sampling(temperature=0.0, max_new_tokens=3)


def test_defaults_of_sampling_leave_with_a_model_that_continues_texts(tmp_path: Path) -> None:
    run = untrained(tmp_path / "run", small_preset("nano"))
    runs.export_run(run, tmp_path / "out")
    table = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    assert (table["do_sample"], table["temperature"], table["top_k"]) == (True, 0.8, 0)
    assert not (tmp_path / "out" / "chat_template.jinja").exists()


def test_a_type_without_gguf_is_refused_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = untrained(tmp_path / "run", replace(BASE, vocab_size=262))
    with pytest.raises(ConfigError, match="--type f16 is for GGUF files"):
        runs.export_run(run, tmp_path / "out", number_type="f16")
    assert main(["export", str(run), str(tmp_path / "out"), "--type", "f16"]) == 2
    with pytest.raises(SystemExit, match="2"):
        main(["export", str(run), str(tmp_path / "out"), "--format", "pickle"])
    assert main(["export", str(run), str(run), "--format", "gguf"]) == 2
    assert "there already" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()
