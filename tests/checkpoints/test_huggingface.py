"""Published directories of every family in and out; and what cannot be is refused by name."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import pellucid
from pellucid import config
from pellucid.checkpoints.huggingface import FAMILIES, choose_family, open_published
from pellucid.checkpoints.huggingface.attributes import ANYWHERE, FixedValue, Ignored, Read
from pellucid.checkpoints.huggingface.names import Layout, fused
from pellucid.cli import main
from pellucid.errors import CheckpointError
from pellucid.model import assemble
from pellucid.presets import PRESETS as NAMES
from pellucid.presets import find
from pellucid.saved_runs.published import build_published
from support.models import BASE, with_attention, with_stack
from support.published import (
    ATTRIBUTES,
    VOCAB,
    WRITTEN_AS,
    change,
    config_of,
    ids,
    retensor,
    shard,
    write,
)

CPU = torch.device("cpu")


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_written_is_read_again_bit_for_bit(family: str, tmp_path: Path) -> None:
    model = write(tmp_path / "dir", family)
    published = open_published(tmp_path / "dir")
    assert published.family == WRITTEN_AS.get(family, family)
    assert published.model == config_of(family)
    read_model = build_published(published, CPU)
    for name, parameter in model.named_parameters():
        assert torch.equal(read_model.get_parameter(name), parameter), name


@pytest.mark.parametrize("family", FAMILIES)
def test_shards_give_the_same_model(family: str, tmp_path: Path) -> None:
    model = write(tmp_path / "dir", family)
    shard(tmp_path / "dir")
    read_model = build_published(open_published(tmp_path / "dir"), CPU)
    for name, parameter in model.named_parameters():
        assert torch.equal(read_model.get_parameter(name), parameter), name


@pytest.mark.parametrize("family", FAMILIES)
def test_every_parameter_has_one_place_of_its_own(family: str) -> None:
    model_config = config_of(family)
    with torch.device("meta"):
        built = assemble(model_config, seed=0)
    used = open_places(family, [name for name, _ in built.named_parameters()])
    assert len(set(used)) == len(used)


def open_places(family: str, parameters: list[str]) -> list[tuple[str, int, int | None]]:
    from pellucid.checkpoints.huggingface.names import source_of

    names = FAMILIES[family].names_for(config_of(family))
    file_sources = [source_of(parameter, names) for parameter in parameters]
    return [
        (source.name, source.index, source.expert) for source in file_sources if source is not None
    ]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("groups", ["one", "heads", "kv_heads", "rows", 2])
@pytest.mark.parametrize("shape", [(12, 5), (12,)])
def test_a_part_that_is_taken_is_the_one_that_was_joined(
    transposed: bool, groups: Any, shape: tuple[int, ...]
) -> None:
    block = "decoder.blocks.0.attention"
    names = dict(fused(block, ("query", "key", "value"), "x", groups=groups, transposed=transposed))
    rows = 12 if groups == "rows" else 6  # of keys and of values
    names_of = [f"{block}.{part}.weight" for part in ("query", "key", "value")]
    shapes = dict(zip(names_of, (shape, (rows, *shape[1:]), (rows, *shape[1:])), strict=True))
    layout = Layout(with_attention(n_heads=6, n_kv_heads=3, d_head=2), names, shapes)
    parts = {name: torch.randn(shapes[name]) for name in names_of}
    ((published, joined),) = layout.publish(parts)
    assert published == "x.weight"
    for name, part in parts.items():
        assert tuple(joined.shape) == layout.published_shape(name)
        assert torch.equal(layout.take(name, joined), part)


def test_every_attribute_of_a_family_is_in_its_table() -> None:
    for family, attributes in ATTRIBUTES.items():
        attributes_of_family = FAMILIES[family].describe(config_of(family))
        for name in (*attributes, *attributes_of_family):
            assert name in FAMILIES[family].rules, (family, name)


def test_rules_of_all_families_do_not_hide_one_that_a_family_reads() -> None:
    for family in FAMILIES.values():
        for name in family.rules.keys() & ANYWHERE.keys():
            assert not isinstance(ANYWHERE[name], Read), (family.model_type, name)
    assert {type(rule) for rule in ANYWHERE.values()} == {FixedValue, Ignored}


def test_a_directory_is_used_in_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "dir")
    run = pellucid.load(tmp_path / "dir")
    logits = run.model(ids(5))
    assert logits.shape == (1, 5, VOCAB)
    before = sorted(tmp_path.rglob("*"))
    for command in (
        ["generate", "--prompt", "a", "--max-new-tokens", "3", "--json"],
        ["score", "abc"],
        ["explain", "abc"],
    ):
        assert main([command[0], str(tmp_path / "dir"), *command[1:]]) == 0
    assert sorted(tmp_path.rglob("*")) == before
    assert capsys.readouterr().err == ""


def test_an_encoder_decoder_begins_as_its_own_files_say(tmp_path: Path) -> None:
    write(tmp_path / "dir", "t5")
    assert pellucid.load(tmp_path / "dir").tokenizer.begin_id == 256
    change(tmp_path / "dir", decoder_start_token_id=257)
    assert pellucid.load(tmp_path / "dir").tokenizer.begin_id == 257
    assert main(["import", str(tmp_path / "dir"), str(tmp_path / "run")]) == 0
    tokenizer = pellucid.load(tmp_path / "run").tokenizer
    assert (tokenizer.begin_id, tokenizer.end_id) == (257, 257)
    assert main(["export", str(tmp_path / "run"), str(tmp_path / "out")]) == 0
    written_config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert written_config["decoder_start_token_id"] == 257


@pytest.mark.parametrize("family", ["llama", "bert", "t5"])
def test_a_directory_is_drawn_as_the_run_made_of_it(
    family: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "one", family)
    assert main(["import", str(tmp_path / "one"), str(tmp_path / "runs" / "one")]) == 0
    use = "embed" if family == "bert" else "generate"
    assert f"use it: pellucid {use} " in capsys.readouterr().out
    assert main(["draw", str(tmp_path / "one")]) == 0
    drawing = capsys.readouterr().out
    assert main(["draw", str(tmp_path / "runs" / "one")]) == 0
    assert capsys.readouterr().out == drawing


@pytest.mark.parametrize("verb", ["score", "evaluate", "generate"])
def test_an_encoder_predicts_no_token_from_those_before_it(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "dir", "bert")
    (tmp_path / "text.txt").write_text("some words")
    words = {"evaluate": [str(tmp_path / "text.txt")], "generate": ["--prompt", "a"]}
    assert main([verb, str(tmp_path / "dir"), *words.get(verb, ["some words"])]) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "an encoder" in message
    assert "as a whole" in message


def test_import_and_export_keep_every_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = write(tmp_path / "dir", "gpt2")
    assert main(["import", str(tmp_path / "dir"), str(tmp_path / "run"), "--json"]) == 0
    import_result = json.loads(capsys.readouterr().out)
    assert import_result["family"] == "gpt2"
    assert import_result["parameters"] == sum(p.numel() for p in model.parameters())
    run = pellucid.load(tmp_path / "run")
    assert torch.equal(run.model(ids(9)), model(ids(9)))
    assert main(["export", str(tmp_path / "run"), str(tmp_path / "out")]) == 0
    assert "a gpt2" in capsys.readouterr().out
    modes = {file.stat().st_mode for file in (tmp_path / "out").iterdir()}
    assert len(modes) == 1  # whoever may read one file may read them all
    exported = pellucid.load(tmp_path / "out")
    assert torch.equal(exported.model(ids(9)), model(ids(9)))
    assert exported.tokenizer.encode_prompt("hello") == run.tokenizer.encode_prompt("hello")
    first, second = (
        json.loads((tmp_path / folder / "config.json").read_text()) for folder in ("dir", "out")
    )
    assert {name for name in first if first[name] != second.get(name)} == set()


def test_what_was_left_out_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "dir", "gpt2")
    mask = {"transformer.h.0.attn.bias": torch.ones(1, 1, 8, 8)}
    retensor(tmp_path / "dir", lambda tensors: tensors.update(mask))
    assert main(["import", str(tmp_path / "dir"), str(tmp_path / "run")]) == 0
    assert "left out: transformer.h.0.attn.bias (the causal mask)" in capsys.readouterr().out


Damage = Callable[[Path], None]


def saying(**attributes: Any) -> Damage:
    return lambda folder: change(folder, **attributes)


def without(name: str) -> Damage:
    def spoil(folder: Path) -> None:
        retensor(folder, lambda tensors: tensors.__delitem__(name))

    return spoil


def with_tensor(name: str, tensor: torch.Tensor) -> Damage:
    return lambda folder: retensor(folder, lambda tensors: tensors.update({name: tensor}))


def cut_off(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def pickled(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def shard_gone(folder: Path) -> None:
    shard(folder)
    (folder / "model-00002-of-00002.safetensors").unlink()


def shard_elsewhere(folder: Path) -> None:
    shard(folder)
    index = folder / "model.safetensors.index.json"
    index.write_text(index.read_text().replace("model-00002", "../model-00002"))


def index_lies(folder: Path) -> None:
    shard(folder)
    index = folder / "model.safetensors.index.json"
    table = json.loads(index.read_text())
    files_of_tensors = table["weight_map"]
    files_of_tensors["lm_head.weight"] = next(
        f for f in files_of_tensors.values() if f != files_of_tensors["lm_head.weight"]
    )
    index.write_text(json.dumps(table))


def index_empty(folder: Path) -> None:
    shard(folder)
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {}}')


NORM = "model.norm.weight"
REFUSED: dict[str, tuple[Damage, str]] = {
    "unknown attribute": (saying(logit_scale=0.5), "'logit_scale' = 0.5"),
    "nearly known attribute": (saying(rms_norm_epsilon=1e-6), "it looks like 'rms_norm_eps'"),
    "value not handled": (saying(pretraining_tp=2), "pretraining_tp = 2"),
    "quantised": (saying(quantization_config={"bits": 4}), "quantization_config"),
    "code of its own": (saying(auto_map={"AutoModel": "x.Y"}), "auto_map"),
    "wrong type": (saying(hidden_size="16"), "hidden_size must be of type int, was '16'"),
    "null": (saying(hidden_size=None), "hidden_size must be of type int, was None"),
    "impossible": (saying(num_key_value_heads=3), "n_heads must be a multiple of n_kv_heads"),
    "no such family": (saying(model_type="spiral"), "'spiral'; docs/huggingface.md lists"),
    "no transformer": (saying(model_type="mamba"), "outside the ground of pellucid"),
    "a family that is a table": (saying(model_type={"a": [1]}), "families that are handled"),
    "no family": (saying(model_type=None), "has no model_type"),
    "no such architecture": (
        saying(architectures=["LlamaForTokenClassification"]),
        "'LlamaForTokenClassification' is not handled; of llama those that are: Llama",
    ),
    "activation": (saying(hidden_act="mish"), "hidden_act = 'mish'"),
    "angles of pictures": (
        saying(rope_scaling={"rope_type": "mrope", "mrope_section": [1, 1]}),
        "rope_type 'mrope' is not handled: its angles count places in pictures",
    ),
    "angles without factors": (
        saying(rope_scaling={"rope_type": "longrope", "short_factor": 1.0}),
        "short_factor must be a list of numbers, was 1.0",
    ),
    "unknown angles": (saying(rope_scaling={"type": "spiral"}), "rope_type 'spiral'"),
    "unknown number of angles": (
        saying(rope_scaling={"rope_type": "linear", "factor": 2.0, "twist": 1}),
        "rope parameter 'twist' = 1",
    ),
    "number of angles missing": (
        saying(rope_scaling={"rope_type": "linear"}),
        "rope parameter 'factor' is missing",
    ),
    "two bases": (
        saying(rope_parameters={"rope_theta": 5e5, "rope_type": "default"}),
        "has rope_theta twice",
    ),
    "no heads": (
        saying(num_attention_heads=0, head_dim=None),
        "describes no model: model.decoder.attention: n_heads",
    ),
    "kind of angles in a list": (
        saying(rope_scaling={"rope_type": ["linear"]}),
        "rope_type must be a name",
    ),
    "class in no list": (saying(architectures="LlamaForCausalLM"), "architectures must be a list"),
    "part of a head": (
        saying(rope_parameters={"rope_type": "default", "partial_rotary_factor": 0.5}),
        "'partial_rotary_factor' = 0.5 is not handled",
    ),
    "missing tensor": (
        without(NORM),
        f"no tensor for decoder.final_norm.gain (there {NORM}), which its config.json needs",
    ),
    "unexpected tensor": (with_tensor("model.extra", torch.ones(2)), "the tensor model.extra"),
    "a bias more": (
        with_tensor("model.layers.0.self_attn.q_proj.bias", torch.ones(16)),
        "the tensor model.layers.0.self_attn.q_proj.bias",
    ),
    "wrong shape": (with_tensor(NORM, torch.ones(15)), f"{NORM} has the shape [15], but"),
    "whole numbers": (with_tensor(NORM, torch.ones(16, dtype=torch.int8)), "is of type I8"),
    "not tied": (saying(tie_word_embeddings=True), "lm_head.weight should equal"),
    "cut off": (cut_off, "is not a whole safetensors file"),
    "not safetensors": (
        lambda folder: (folder / "model.safetensors").write_bytes(b"PK\3\4 nothing") and None,
        "is not a whole safetensors file",
    ),
    "empty": (lambda folder: (folder / "model.safetensors").write_bytes(b"") and None, "whole"),
    "pickle": (pickled, "torch.load('pytorch_model.bin', weights_only=True)"),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), "there are no weights"),
    "index without a tensor": (index_empty, "model.safetensors.index.json names no tensor"),
    "shard missing": (shard_gone, "model-00002-of-00002.safetensors is missing"),
    "shard elsewhere": (shard_elsewhere, "expected the name of a file in its folder"),
    "shard without its tensor": (index_lies, "says that lm_head.weight is in model-0000"),
    "config is no JSON": (
        lambda folder: (folder / "config.json").write_text("{") and None,
        "config.json: is not valid JSON",
    ),
    "config is a list": (lambda d: (d / "config.json").write_text("[]") and None, "an object"),
    "no tokenizer": (lambda folder: (folder / "tokenizer.json").unlink(), "holds no tokenizer"),
    "tokenizer is broken": (
        lambda folder: (folder / "tokenizer.json").write_text('{"model": {}}') and None,
        "is not a tokenizer",
    ),
    "tokenizer settings broken": (
        lambda folder: (folder / "tokenizer_config.json").write_text("{") and None,
        "tokenizer_config.json: is not valid JSON",
    ),
}  # fmt: skip


@pytest.mark.parametrize("damage", REFUSED)
def test_a_directory_that_cannot_be_read_is_refused_by_name(
    damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "dir")
    spoil, message = REFUSED[damage]
    spoil(tmp_path / "dir")
    before = sorted(tmp_path.rglob("*"))
    for words in (
        ["import", str(tmp_path / "dir"), str(tmp_path / "run"), "--json"],
        ["generate", str(tmp_path / "dir"), "--prompt", "a", "--json"],
    ):
        assert main(words) == 2
        assert message in json.loads(capsys.readouterr().out)["message"]
        assert sorted(tmp_path.rglob("*")) == before


def test_a_tokenizer_with_more_tokens_than_the_model_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "dir", vocab_size=257)
    assert main(["import", str(tmp_path / "dir"), str(tmp_path / "run"), "--json"]) == 2
    assert "ids up to 257, but the model has rows for 257" in capsys.readouterr().out
    assert not (tmp_path / "run").exists()


def test_a_place_that_is_taken_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "dir")
    assert main(["import", str(tmp_path / "dir"), str(tmp_path / "dir")]) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "is there already and is not empty" in message


@pytest.mark.parametrize("verb", ["train --resume", "report", "attach", "verify-resume", "export"])
def test_a_directory_is_no_run_that_could_go_on(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "dir")
    extra = [str(tmp_path / "out")] if verb == "export" else []
    assert main([*verb.split(), str(tmp_path / "dir"), *extra]) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "is a published model and not a run" in message
    assert "pellucid import" in message


def test_nothing_is_published_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", str(tmp_path), str(tmp_path / "run")]) == 2
    assert "is no published model" in " ".join(capsys.readouterr().err.split())


INEXPRESSIBLE: dict[str, tuple[config.Transformer, str]] = {
    "a LayerNorm before each layer and one after it": (
        with_stack(residual=config.SandwichNorm()),
        "decoder.residual is SandwichNorm",
    ),
    "sinusoids from the first row": (
        with_stack(positions=config.Sinusoidal(base=1e4)),
        "decoder.positions.offset is 0, it could only be 2",
    ),
    "linear attention": (
        with_stack(
            attention=config.LinearAttention(
                n_heads=4, d_head=4, qkv_bias=False, out_bias=False, chunk=4
            )
        ),
        "attention is LinearAttention",
    ),
    "angles of no family": (
        replace(
            config_of("llama"),
            decoder=replace(
                config_of("llama").decoder,  # type: ignore[type-var]
                positions=config.Rotary(base=1e4, scaling=config.NTKScaling(factor=2.0)),
            ),
        ),
        "model.decoder.positions.scaling is NTKScaling, it could only be absent",
    ),
    "sinks": (with_attention(sinks=True), "sinks is True"),
    "half of the heads' width for values": (with_attention(d_value=2), "d_value is 2"),
}


@pytest.mark.parametrize("case", INEXPRESSIBLE)
def test_a_model_that_no_family_can_say_is_refused_part_by_part(case: str) -> None:
    model, message = INEXPRESSIBLE[case]
    with pytest.raises(CheckpointError, match="no family") as refused:
        choose_family(model, [])
    assert message in str(refused.value)


#: The beginning of the names of presets, and the family that can express them; None if none can.
PRESETS = {
    "nano": None,
    "micro": None,
    "small": None,
    "medium": None,
    "transformer": None,
    "bert": "bert",
    "minilm": "bert",
    "gpt2": "gpt2",
    "t5": "t5",
    "pythia": "gpt_neox",
    "llama": "llama",
    "mistral": "mistral",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "gemma2": "gemma2",
    "olmo2": "olmo2",
}


@pytest.mark.parametrize("preset", NAMES)
def test_a_preset_of_a_published_model_is_said_in_its_family(preset: str) -> None:
    expected = next(family for start, family in PRESETS.items() if preset.startswith(start))
    model = find(preset).model
    model = model if model.vocab_size is not None else replace(model, vocab_size=VOCAB)
    with torch.device("meta"):
        parameters = [name for name, _ in assemble(model, seed=0).named_parameters()]
    if expected is not None:
        assert choose_family(model, parameters)[0].model_type == expected
        return
    with pytest.raises(CheckpointError, match="no family"):
        choose_family(model, parameters)


@pytest.mark.parametrize("family", ["marian", "pegasus"])
def test_sinusoids_in_a_file_must_be_those_that_are_computed(family: str, tmp_path: Path) -> None:
    model = write(tmp_path / "dir", family)
    name = "model.encoder.embed_positions.weight"
    table = model.get_buffer("encoder.positions.table")
    retensor(tmp_path / "dir", lambda tensors: tensors.update({name: table.half()}))
    assert name in open_published(tmp_path / "dir").ignored_tensors
    retensor(tmp_path / "dir", lambda tensors: tensors.update({name: table.flip(0)}))
    with pytest.raises(CheckpointError, match="is not the table that follows"):
        open_published(tmp_path / "dir")


def test_a_constant_that_a_file_lacks_is_zero(tmp_path: Path) -> None:
    write(tmp_path / "dir", "bart")
    retensor(tmp_path / "dir", lambda tensors: tensors.__delitem__("final_logits_bias"))
    model = build_published(open_published(tmp_path / "dir"), CPU)
    assert torch.equal(model.get_buffer("head_bias"), torch.zeros(VOCAB))


def test_the_norm_of_each_head_is_a_tensor_of_its_own(tmp_path: Path) -> None:
    model = write(tmp_path / "dir", "stablelm")
    name = "model.layers.1.self_attn.k_layernorm.norms.1.weight"
    retensor(tmp_path / "dir", lambda tensors: tensors[name].fill_(7.0))
    read_model = build_published(open_published(tmp_path / "dir"), CPU)
    parameter = "decoder.blocks.1.attention.key_norm.gain"
    expected = model.get_parameter(parameter).detach().clone()
    expected[4:] = 7.0  # of two heads with four features
    assert torch.equal(read_model.get_parameter(parameter), expected)
    retensor(tmp_path / "dir", lambda tensors: tensors.__delitem__(name))
    with pytest.raises(CheckpointError, match=rf"no tensor for {parameter} \(there {name}\)"):
        open_published(tmp_path / "dir")


def test_the_nearest_family_of_a_pair_of_stacks_is_one_with_both() -> None:
    with pytest.raises(
        CheckpointError,
        match=r"nearest is marian, but: .*encoder\.positions\.pairing is interleaved",
    ):
        choose_family(find("transformer-base").model, [])


def test_a_run_that_needs_more_parts_says_which(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(trained), str(tmp_path / "out")]) == 0
    message = " ".join(capsys.readouterr().out.split())
    assert "zeros take their place and change no output" in message


def test_rates_of_dropout_and_first_weights_do_not_stop_an_export() -> None:
    plain = config_of("llama")
    assert plain.decoder is not None
    model = replace(
        plain,
        decoder=replace(plain.decoder, dropout=0.3),
        initialisation=replace(BASE.initialisation, outputs="zero"),
    )
    parameters = [name for name, _ in assemble(model, seed=0).named_parameters()]
    assert choose_family(model, parameters)[0].model_type == "llama"


_MEASURE = """if True:
    import json, sys, torch
    from pathlib import Path
    from pellucid.checkpoints.huggingface import open_published
    from pellucid.saved_runs.published import build_published

    def told(what):  # getrusage would tell of the parent, whose peak a child inherits
        lines = Path("/proc/self/status").read_text().splitlines()
        (line,) = (line for line in lines if line.startswith(what + ":"))
        return int(line.split()[1]) * 1024

    build_published(open_published(Path(sys.argv[1])), torch.device("cpu"))  # what is loaded once
    before = told("VmRSS")
    model = build_published(open_published(Path(sys.argv[2])), torch.device("cpu"))
    total = sum(float(p.detach().sum()) for p in model.parameters())  # every page is touched
    print(json.dumps([told("VmHWM") - before, max(p.numel() for p in model.parameters()) * 4]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of a process from /proc")
@pytest.mark.parametrize(
    ("family", "sizes"),
    [
        ("gpt2", {"n_embd": 1024, "n_layer": 8}),
        ("gpt_neox", {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 8}),
        ("llama", {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 6}),
    ],
)
@pytest.mark.slow
def test_loading_takes_the_size_of_the_file_and_one_tensor(
    family: str, sizes: dict[str, int], tmp_path: Path
) -> None:
    write(tmp_path / "small", family)
    write(tmp_path / "large", family, **sizes)
    size = (tmp_path / "large" / "model.safetensors").stat().st_size
    assert size > 350e6
    process = subprocess.run(
        [sys.executable, "-c", _MEASURE, str(tmp_path / "small"), str(tmp_path / "large")],
        capture_output=True,
        text=True,
        check=True,
    )
    n_bytes, largest = json.loads(process.stdout)

    assert n_bytes <= size + largest + 16e6, (n_bytes, size, largest)
