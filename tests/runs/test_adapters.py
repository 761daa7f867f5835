"""Runs that train a part of the weights: resumed, started from, leaving alone or whole."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import pellucid
from pellucid import config, runs
from pellucid.errors import CheckpointError, ConfigError, RunError
from pellucid.generation import Sampling
from pellucid.model import adapters, merged
from pellucid.runs.resolve_config import resolve_config
from pellucid.training import Started
from support.tiny import TINY, train_tiny, write_text

#: A body that a published family can say.
LLAMA = (
    'model.decoder.norm={kind = "RMSNorm", eps = 1e-5}',
    'model.decoder.feed_forward={kind = "GatedMLP", d_ff = 24, activation = "silu", bias = false}',
)
PACE = [each for each in TINY if each.startswith("training.")]
GREEDY = Sampling(max_new_tokens=8, temperature=0)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base") / "run"
    train_tiny(folder, steps=4, settings=LLAMA)
    return folder


@pytest.fixture(scope="module")
def adapted(base: Path) -> Path:
    """The base with adapters, trained for 8 steps with dropout of what they read."""
    folder = base.parent / "lora"
    adapt(base, folder)
    return folder


def adapt(base: Path, out: Path, **choices: Any) -> runs.Run:
    text = write_text(base.parent / "text")
    choices = {"lora": 2, "steps": 8, "settings": PACE, **choices}
    return pellucid.train([text], start=base, out=out, show=False, **choices)


def logits(run: runs.Run) -> Tensor:
    with torch.no_grad():
        return run.model(torch.arange(12).reshape(1, 12))


def facts(run: Path) -> dict[str, str]:
    events = runs.read_events(run / "metrics.jsonl")
    return dict(next(event.facts for event in events if isinstance(event, Started)))


def test_adapters_alone_move_and_the_facts_say_so(base: Path, adapted: Path) -> None:
    base_weights, run = pellucid.load(base).model.state_dict(), pellucid.load(adapted)
    state = run.model.state_dict()
    assert all(torch.equal(state[name], weight) for name, weight in base_weights.items())
    assert all(layer.lora_up.any() for layer in adapters(run.model).values())
    run_facts = facts(adapted)
    assert run_facts["frozen"].endswith("adapters of rank 2 learn next to *.blocks.*")
    moves = sum(
        parameter.numel() for name, parameter in run.model.named_parameters() if "lora" in name
    )
    assert run_facts["updated"] == f"hidden matrices {moves}"


def test_a_run_with_adapters_resumes_bit_for_bit(adapted: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(adapted, tmp_path / "copy")
    runs.resume(copy / "checkpoints/step-4", show=False)
    for name in ("model", "optimiser"):
        file = f"checkpoints/step-8/{name}.safetensors"
        assert (copy / file).read_bytes() == (adapted / file).read_bytes()


def test_a_run_with_adapters_writes_on_and_is_evaluated(adapted: Path, tmp_path: Path) -> None:
    run = pellucid.load(adapted)
    (generated,) = runs.generate(run, "the", GREEDY)
    assert len(generated.ids) == 8
    assert 0 < runs.evaluate(run, [write_text(tmp_path)]).loss_nats < 6


def test_exported_whole_it_says_the_same_without_adapters(adapted: Path, tmp_path: Path) -> None:
    assert runs.export_run(adapted, tmp_path / "out").family == "llama"
    exported, run = pellucid.load(tmp_path / "out"), pellucid.load(adapted)
    assert not adapters(exported.model)
    torch.testing.assert_close(logits(exported), logits(run), atol=1e-5, rtol=1e-5)
    assert runs.generate(exported, "the", GREEDY)[0].ids == runs.generate(run, "the", GREEDY)[0].ids


@pytest.mark.parametrize("published", [False, True], ids=["a run", "an exported model"])
def test_adapters_leave_alone_and_come_back_on_their_base(
    base: Path, adapted: Path, tmp_path: Path, published: bool
) -> None:
    base_folder = base
    if published:
        base_folder = tmp_path / "base"
        runs.export_run(base, base_folder)
    export = runs.export_adapter(adapted, tmp_path / "alone", base=str(base_folder))
    assert export.family == "LoRA of rank 2 for a llama"
    adapter_config = json.loads((tmp_path / "alone" / "adapter_config.json").read_text())
    assert (adapter_config["r"], adapter_config["base_model_name_or_path"]) == (2, str(base_folder))
    # the base is named in the adapters' files; a flag says it too
    imported = runs.import_model(tmp_path / "alone", tmp_path / "back")
    runs.import_model(tmp_path / "alone", tmp_path / "told", base=base_folder)
    reimported, run = pellucid.load(tmp_path / "back"), pellucid.load(adapted)
    assert imported.parameters == sum(
        parameter.numel() for name, parameter in run.model.named_parameters() if "lora" in name
    )
    assert isinstance(reimported.config.trained, config.LoRA)
    for name, tensor in run.model.state_dict().items():
        assert torch.equal(reimported.model.state_dict()[name], tensor), name
    assert torch.equal(logits(pellucid.load(tmp_path / "told")), logits(run))


@pytest.mark.parametrize("published", [False, True], ids=["a run", "an exported model"])
def test_adapters_of_a_base_whose_norms_have_no_bias_leave_as_the_base_does(
    tmp_path: Path, published: bool
) -> None:
    train_tiny(tmp_path / "plain", steps=1)
    adapt(tmp_path / "plain", tmp_path / "tuned", steps=2)
    base_folder = tmp_path / "plain"
    if published:
        base_folder = tmp_path / "base"
        assert runs.export_run(tmp_path / "plain", base_folder).notes
    runs.export_adapter(tmp_path / "tuned", tmp_path / "alone", base=str(base_folder))
    runs.import_model(tmp_path / "alone", tmp_path / "back")
    reimported, run = pellucid.load(tmp_path / "back"), pellucid.load(tmp_path / "tuned")
    torch.testing.assert_close(logits(reimported), logits(run), atol=1e-6, rtol=1e-5)


def test_adapters_get_the_names_of_the_published_base_that_is_named(
    base: Path, adapted: Path, tmp_path: Path
) -> None:
    base_folder = tmp_path / "base"
    runs.export_run(base, base_folder)
    file = base_folder / "config.json"
    attributes = json.loads(file.read_text())
    attributes = {name: value for name, value in attributes.items() if not name.endswith("_bias")}
    other = {"model_type": "mistral", "architectures": ["MistralForCausalLM"]}
    file.write_text(json.dumps({**attributes, **other, "sliding_window": None}))
    export = runs.export_adapter(adapted, tmp_path / "alone", base=str(base_folder))
    assert export.family == "LoRA of rank 2 for a mistral"


def test_what_starts_from_adapters_starts_from_the_sum(adapted: Path, tmp_path: Path) -> None:
    sgd = 'optimiser={kind = "SGD", learning_rate = 1e-30, momentum = 0.0, l2 = 0.0}'
    run = adapt(adapted, tmp_path / "on", lora=None, steps=1, settings=[*PACE, sgd])
    assert not adapters(run.model)
    summed_weights = merged(pellucid.load(adapted).model)
    for name, weight in run.model.state_dict().items():
        assert torch.equal(weight, summed_weights[name]), name


def test_last_layers_alone_move_and_the_facts_say_so(base: Path, tmp_path: Path) -> None:
    trained_settings = ["trained.kind=LastLayers", "trained.count=1"]
    run = adapt(base, tmp_path / "last", lora=None, settings=[*PACE, *trained_settings])
    base_weights = pellucid.load(base).model.state_dict()
    moved_names = {
        name
        for name, weight in run.model.state_dict().items()
        if not torch.equal(weight, base_weights[name])
    }
    assert moved_names
    assert all("blocks.1." in name or "final_norm" in name for name in moved_names)
    frozen_text = "all but the last block, the final norm and the head"
    assert facts(tmp_path / "last")["frozen"].endswith(frozen_text)


def test_answers_are_learnt_by_adapters_alone(tmp_path: Path) -> None:
    data = tmp_path / "rows.jsonl"
    rows = [{"instruction": f"say {word}", "output": word} for word in "abcdefghij" * 2]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = [*TINY, "model.context_length=128", "text.held_out=0.2"]
    with pytest.raises(ConfigError, match="--from"):
        resolve_config([data], objective="sft", lora=2, settings=settings)
    targets = '["decoder.blocks.*.attention.query"]'
    trained_setting = f'trained={{kind="LoRA", rank=2, alpha=4.0, dropout=0.0, targets={targets}}}'
    tuned = pellucid.train(
        [data],
        objective="sft",
        steps=2,
        out=tmp_path / "run",
        settings=[*settings, trained_setting],
        show=False,
    )
    assert adapters(tuned.model)
    assert "frozen" in facts(tmp_path / "run")


def test_adapters_without_a_base_are_refused(adapted: Path, tmp_path: Path) -> None:
    runs.export_adapter(adapted, tmp_path / "alone")
    with pytest.raises(RunError, match=r"hold.*adapters.*name none.*--base"):
        runs.import_model(tmp_path / "alone", tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_adapters_on_another_base_are_refused(adapted: Path, trained: Path, tmp_path: Path) -> None:
    runs.export_adapter(adapted, tmp_path / "alone")
    with pytest.raises(CheckpointError):
        runs.import_model(tmp_path / "alone", tmp_path / "back", base=trained)
    assert not (tmp_path / "back").exists()


def test_a_run_without_adapters_has_none_to_write(base: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="has no adapters to write alone"):
        runs.export_adapter(base, tmp_path / "alone")
    assert not (tmp_path / "alone").exists()
    with pytest.raises(RunError, match=r"has no adapters .*, and so no base"):
        runs.import_model(base, tmp_path / "back", base=base)
