"""An adapter alone, out and in again: exact where it is ours, refused by name where it is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from pellucid import config
from pellucid.checkpoints import Checkpoint, load_model_tensors, save
from pellucid.checkpoints.huggingface import (
    FAMILIES,
    is_adapter,
    read_adapter,
    write_adapter,
)
from pellucid.checkpoints.huggingface.adapter_layers import Base
from pellucid.errors import CheckpointError
from pellucid.model import Transformer, adapters, assemble, assemble_trained, merged
from support.models import VARIANTS
from support.nightly import sampled
from support.published import WRITTEN_AS, config_of

LORA = config.LoRA(rank=3, alpha=5.0, dropout=0.125, targets=("*",))
FUSED = ("gpt2", "gpt_neox")
#: Families with all experts of a layer in one tensor.
STACKED = ("gpt_oss", "granitemoe", "granitemoeshared")


def adapted(model: config.Transformer, lora: config.LoRA = LORA, *, fresh: bool = False) -> Any:
    built = assemble(model, seed=1).eval()
    assemble_trained(built, lora, seed=2)
    generator = torch.Generator().manual_seed(3)
    for layer in () if fresh else adapters(built).values():
        with torch.no_grad():
            layer.lora_up.normal_(0.0, 0.3, generator=generator)
    return built


def learnt(model: Transformer) -> dict[str, Tensor]:
    return {n: t for n, t in model.state_dict().items() if ".lora_" in n}


def write(
    folder: Path, family: str = "llama", lora: config.LoRA = LORA, **more: Any
) -> Transformer:
    folder.mkdir()
    model_config = config_of(family)
    model = adapted(model_config, lora, **more)
    written_as = write_adapter(folder, model_config, lora, model.state_dict(), base="there")
    assert written_as == WRITTEN_AS.get(family, family)
    return model


def same(got: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert got.keys() == expected.keys()
    assert all(torch.equal(got[name], expected[name]) for name in got)


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("family", sampled(FAMILIES, 2))
def test_adapter_is_the_same_after_out_and_in(family: str, fresh: bool, tmp_path: Path) -> None:
    folder = tmp_path / "adapter"
    assert not is_adapter(folder)
    lora = replace(LORA, targets=("query", "value", "router")) if family in STACKED else LORA
    model = write(folder, family, lora, fresh=fresh)
    assert is_adapter(folder)
    read = read_adapter(folder, config_of(family))
    assert read.base == "there"
    same(read.tensors, learnt(model))
    read_model = adapted(config_of(family), read.lora)
    assert list(adapters(read_model)) == list(adapters(model))
    assert (read.lora.rank, read.lora.alpha, read.lora.dropout) == (3, 5.0, 0.125)


@pytest.mark.parametrize("family", WRITTEN_AS)
def test_an_adapter_of_a_base_that_leaves_as_another_family_has_the_names_of_its_files(
    family: str, tmp_path: Path
) -> None:
    model_config = config_of(family)
    model = adapted(model_config)
    written_as = write_adapter(tmp_path, model_config, LORA, model.state_dict(), family=family)
    assert written_as == family
    same(read_adapter(tmp_path, model_config).tensors, learnt(model))
    names = Base(model_config, family)
    modules = json.loads((tmp_path / "adapter_config.json").read_text())["target_modules"]
    assert set(modules) == names.modules.keys()


def test_a_family_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    model_config = config_of("llama")
    state = adapted(model_config).state_dict()
    with pytest.raises(CheckpointError, match="a gpt2 does not fit this model: "):
        write_adapter(tmp_path, model_config, LORA, state, family="gpt2")
    with pytest.raises(CheckpointError, match="pellucid is no family of transformers"):
        write_adapter(tmp_path, model_config, LORA, state, family="pellucid")


@pytest.mark.parametrize("family", STACKED)
def test_an_update_of_an_expert_in_a_tensor_of_all_is_refused(family: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="all experts of a layer in one tensor"):
        write(tmp_path / "adapter", family)
    assert not list((tmp_path / "adapter").iterdir())


@pytest.mark.parametrize(
    "targets",
    [("query", "value"), ("key",), ("decoder.blocks.1.attention.*",), ("query", "*.1.*.value")],
)
@pytest.mark.parametrize("family", ["llama", *FUSED])
def test_any_targets_come_back(family: str, targets: tuple[str, ...], tmp_path: Path) -> None:
    lora = replace(LORA, targets=targets)
    model = write(tmp_path / "adapter", family, lora)
    read = read_adapter(tmp_path / "adapter", config_of(family))
    same(read.tensors, learnt(model))
    assert set(adapters(adapted(config_of(family), read.lora))) == set(adapters(model))
    if all("." not in target for target in targets):
        assert set(read.lora.targets) == set(targets)


@pytest.mark.parametrize("family", FUSED)
def test_fused_update_is_the_updates_of_its_parts(family: str, tmp_path: Path) -> None:
    """up @ down of the fused layer has each part's up @ down in that part's rows, and no more."""
    lora = replace(LORA, targets=("query", "value"))
    model, base = write(tmp_path / "adapter", family, lora), Base(config_of(family))
    stored = load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    for n in range(2):
        path = f"decoder.blocks.{n}.attention"
        for part in ("query", "key", "value"):
            source = base.source(f"{path}.{part}")
            module = f"base_model.model.{source.name.removesuffix('.weight')}"
            fused_update = stored[f"{module}.lora_B.weight"] @ stored[f"{module}.lora_A.weight"]
            part_update = base.layout.take(f"{path}.{part}.weight", fused_update)
            layer = model.get_submodule(f"{path}.{part}")
            expected = layer.lora_up @ layer.lora_down if part != "key" else torch.zeros(16, 16)
            torch.testing.assert_close(part_update, expected.detach(), rtol=1e-5, atol=1e-6)


def test_table_is_what_peft_reads(tmp_path: Path) -> None:
    write(tmp_path / "a", "gpt2", replace(LORA, targets=("query", "value", "up")))
    table = json.loads((tmp_path / "a" / "adapter_config.json").read_text())
    assert table["target_modules"] == [
        f"transformer.h.{n}.{part}" for n in range(2) for part in ("attn.c_attn", "mlp.c_fc")
    ]
    assert (table["r"], table["lora_alpha"], table["task_type"]) == (3, 5, "CAUSAL_LM")
    assert table["rank_pattern"] == {"c_attn": 6}
    assert table["alpha_pattern"] == {"c_attn": 10}
    assert table["fan_in_fan_out"] is True
    assert (tmp_path / "a" / "adapter_model.safetensors").stat().st_mode & 0o044


@pytest.mark.parametrize("family", FUSED)
def test_fused_update_of_others_is_read_as_three_that_share_their_down(
    family: str, tmp_path: Path
) -> None:
    model_config = config_of(family)
    write(tmp_path / "a", family, replace(LORA, targets=("query",)))

    def fill(tensors: dict[str, Tensor]) -> None:
        for name, tensor in tensors.items():
            tensors[name] = torch.randn(tensor.shape)

    retensor(tmp_path / "a", fill, keep_metadata=False)
    read = read_adapter(tmp_path / "a", model_config)
    assert read.lora.targets == ("query", "key", "value")
    downs = [read.tensors[f"decoder.blocks.0.attention.{p}.lora_down"] for p in read.lora.targets]
    assert torch.equal(downs[0], downs[1])
    assert torch.equal(downs[0], downs[2])


def retensor(
    folder: Path, edit: Callable[[dict[str, Tensor]], None], *, keep_metadata: bool = True
) -> None:
    file = folder / "adapter_model.safetensors"
    with safe_open(file, framework="pt") as opened:
        metadata = opened.metadata() if keep_metadata else {"format": "pt"}
    tensors = {name: tensor.clone() for name, tensor in load_file(file).items()}
    edit(tensors)
    save_file(tensors, file, metadata=metadata)


def change(folder: Path, **attributes: Any) -> None:
    file = folder / "adapter_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **attributes}))


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("use_rslora", True),
        ("use_dora", True),
        ("bias", "all"),
        ("bias", "lora_only"),
        ("lora_bias", True),
        ("modules_to_save", ["classifier"]),
        ("peft_type", "IA3"),
        ("init_lora_weights", "pissa"),
        ("init_lora_weights", "olora"),
        ("trainable_token_indices", [1]),
        ("layer_replication", [[0, 1]]),
        ("a_new_way", 1),
        ("rank_pattern", {"q_proj|k_proj": 3}),
        ("rank_pattern", {"q_proj": 0}),
        ("rank_pattern", 3),
        ("r", "3"),
        ("r", 0),
        ("r", None),
        ("lora_alpha", True),
        ("lora_dropout", "no"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(
    attribute: str, value: Any, tmp_path: Path
) -> None:
    write(tmp_path / "a")
    change(tmp_path / "a", **{attribute: value})
    with pytest.raises(CheckpointError, match=r"adapter_config\.json") as refused:
        read_adapter(tmp_path / "a", config_of("llama"))
    key = next(iter(value)) if isinstance(value, dict) else attribute
    assert key in str(refused.value)


def test_what_is_off_or_says_how_it_started_is_no_obstacle(tmp_path: Path) -> None:
    model = write(tmp_path / "a")
    switched_off = {"a_new_way": None, "another": {}, "use_qalora": False, "loftq_config": {}}
    change(tmp_path / "a", **switched_off, init_lora_weights="gaussian", peft_version="99")
    same(read_adapter(tmp_path / "a", config_of("llama")).tensors, learnt(model))


@pytest.mark.parametrize("pattern", ["rank_pattern", "alpha_pattern"])
def test_layers_of_different_scale_are_refused(pattern: str, tmp_path: Path) -> None:
    write(tmp_path / "a")
    change(tmp_path / "a", **{pattern: {"^model.layers.0.mlp.up_proj": 2}})

    def narrow(tensors: dict[str, Tensor]) -> None:
        if pattern == "rank_pattern":
            path = "base_model.model.model.layers.0.mlp.up_proj"
            tensors[f"{path}.lora_A.weight"] = torch.ones(2, 16)
            tensors[f"{path}.lora_B.weight"] = torch.ones(24, 2)

    retensor(tmp_path / "a", narrow)
    with pytest.raises(CheckpointError, match="different scale"):
        read_adapter(tmp_path / "a", config_of("llama"))


def test_layers_of_different_rank_and_one_scale_are_read_with_zeros(tmp_path: Path) -> None:
    """So does an adapter of blocks come back from `peft`, which keeps no metadata."""
    model_config = config_of("gpt2")
    model = write(tmp_path / "a", "gpt2", replace(LORA, targets=("query", "value", "up")))
    retensor(tmp_path / "a", lambda tensors: None, keep_metadata=False)
    read = read_adapter(tmp_path / "a", model_config)
    assert (read.lora.rank, read.lora.alpha) == (6, 10.0)
    read_model = adapted(model_config, read.lora)
    read_model.load_state_dict({**read_model.state_dict(), **read.tensors})
    ids = torch.arange(3, 12)[None]
    with torch.no_grad():
        torch.testing.assert_close(read_model(ids), model(ids), rtol=1e-5, atol=1e-5)


Q = "base_model.model.model.layers.0.self_attn.q_proj"


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (lambda t: t.pop(f"{Q}.lora_A.weight"), "has no .*q_proj.lora_A.weight"),
        (lambda t: t.clear(), "no tensors"),
        (lambda t: t.update({f"{Q}.lora_magnitude_vector": torch.ones(3)}), "magnitude_vector"),
        (lambda t: t.update({f"{Q}.lora_A.weight": torch.ones(2, 16)}), "must be"),
        (lambda t: t.update({f"{Q}.lora_A.weight": torch.ones(3, 16).int()}), "I32"),
        (
            lambda t: t.update(
                {f"base_model.model.lm_head.lora_{x}.weight": torch.ones(3, 3) for x in "AB"}
            ),
            "lm_head, which is no linear layer",
        ),
    ],
)
def test_tensors_that_do_not_fit_are_refused(edit: Any, why: str, tmp_path: Path) -> None:
    write(tmp_path / "a")
    retensor(tmp_path / "a", edit)
    with pytest.raises(CheckpointError, match=why):
        read_adapter(tmp_path / "a", config_of("llama"))


@pytest.mark.parametrize("blocks", ["[", "[1]", '{"transformer.h.0.attn.c_attn": [0]}'])
def test_blocks_that_are_not_there_are_refused(blocks: str, tmp_path: Path) -> None:
    write(tmp_path / "a", "gpt2", replace(LORA, targets=("query", "value")))
    file = tmp_path / "a" / "adapter_model.safetensors"
    save_file(load_file(file), file, metadata={"blocks": blocks})
    with pytest.raises(CheckpointError, match="metadata"):
        read_adapter(tmp_path / "a", config_of("gpt2"))


def test_adapter_of_another_base_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a", "gpt2")
    with pytest.raises(CheckpointError, match=r"no linear layer of this base \(a llama\)"):
        read_adapter(tmp_path / "a", config_of("llama"))


def test_missing_files_and_pickles_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "a")
    (tmp_path / "a" / "adapter_model.safetensors").rename(tmp_path / "a" / "adapter_model.bin")
    with pytest.raises(CheckpointError, match=r"adapter_model\.bin, which is a pickle"):
        read_adapter(tmp_path / "a", config_of("llama"))
    (tmp_path / "a" / "adapter_model.bin").unlink()
    with pytest.raises(CheckpointError, match=r"has no adapter_model\.safetensors"):
        read_adapter(tmp_path / "a", config_of("llama"))
    (tmp_path / "a" / "adapter_config.json").unlink()
    with pytest.raises(CheckpointError, match="does not exist"):
        read_adapter(tmp_path / "a", config_of("llama"))


def test_model_that_no_family_can_say_is_refused(tmp_path: Path) -> None:
    odd = VARIANTS["shaw"]
    with pytest.raises(CheckpointError, match="no family"):
        write_adapter(tmp_path, odd, LORA, adapted(odd).state_dict())
    assert not list(tmp_path.iterdir())


def test_what_is_no_adapter_alone_is_refused(tmp_path: Path) -> None:
    model_config = config_of("llama")
    state = adapted(model_config).state_dict()
    with pytest.raises(CheckpointError, match=r"classifier\.weight is fully trained"):
        write_adapter(
            tmp_path, model_config, LORA, {**state, "classifier.weight": torch.ones(2, 16)}
        )
    with pytest.raises(CheckpointError, match="no adapters"):
        write_adapter(tmp_path, model_config, LORA, assemble(model_config, seed=0).state_dict())
    assert not list(tmp_path.iterdir())


def test_adapted_model_comes_back_from_an_ordinary_checkpoint(tmp_path: Path) -> None:
    model_config = config_of("llama")
    model = adapted(model_config)
    save(tmp_path / "step-1", Checkpoint(model.state_dict(), {}, {}, {}))
    with torch.device("meta"):
        read_model = assemble(model_config, seed=0)
        assemble_trained(read_model, LORA, seed=0)
    read_model.load_state_dict(load_model_tensors(tmp_path / "step-1"), assign=True)
    ids = torch.arange(3, 12)[None]
    with torch.no_grad():
        assert torch.equal(read_model.eval()(ids), model(ids))
    same(merged(read_model), merged(model))


def test_adapter_that_was_read_fits_the_state_of_its_base(tmp_path: Path) -> None:
    """A base's state and an adapter's tensors are together the state of the adapted model."""
    model = write(tmp_path / "a", "bert")
    read = read_adapter(tmp_path / "a", config_of("bert"))
    base = assemble(config_of("bert"), seed=1).state_dict()
    same({**base, **read.tensors}, dict(model.state_dict()))
