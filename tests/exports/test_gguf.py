"""GGUF files read back: the weights, the logits from them, and the tokens."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import pellucid
from pellucid import config, runs
from pellucid.checkpoints.huggingface import complete
from pellucid.data.chat.templates import PLAIN
from pellucid.errors import CheckpointError, PellucidError, TextError
from pellucid.exports.gguf.architectures import ARCHITECTURES
from pellucid.exports.gguf.tensors import gguf_name, pairing_order
from pellucid.tokenizers import train_bytes
from pellucid.tokenizers.train import train_byte_pairs, train_characters, train_words
from support.exported import filled, small_preset, untrained
from support.gguf_models import MODELS, tiny

gguf: Any = pytest.importorskip("gguf")

IDS = torch.randint(0, 262, (2, 23), generator=torch.Generator().manual_seed(1))


def tensors_in(file: Path) -> dict[str, Tensor]:
    """All tensors of a file, in float32."""
    reader = gguf.GGUFReader(str(file))
    return {
        tensor.name: torch.tensor(gguf.quants.dequantize(tensor.data, tensor.tensor_type))
        for tensor in reader.tensors
    }


def fields_of(file: Path) -> dict[str, Any]:
    reader = gguf.GGUFReader(str(file))
    return {name: field.contents() for name, field in reader.fields.items()}


def as_ours(stored: dict[str, Tensor], model: config.Transformer) -> dict[str, Tensor]:
    """The weights of the model, from the tensors of a file."""
    from pellucid.model import assemble

    shapes = {name: tensor.shape for name, tensor in assemble(model, seed=0).state_dict().items()}
    split = dict(stored)
    for name, tensor in stored.items():
        if ".attn_qkv." in name:
            for part, piece in zip("qkv", tensor.chunk(3), strict=True):
                split[name.replace("attn_qkv", f"attn_{part}")] = piece
    kept = [name for name in shapes if not name.startswith("pooler.")]  # no part of the states
    return {name: _as_ours(name, split, model).reshape(shapes[name]) for name in kept}


def _as_ours(name: str, stored: dict[str, Tensor], model: config.Transformer) -> Tensor:
    tensor = stored[gguf_name(name, model)]
    stack = model.decoder or model.encoder
    assert stack is not None
    attention = stack.layers[0].attention
    if name.endswith(".gain") and getattr(stack.norm, "unit_offset", False):
        return tensor - 1
    scaled = isinstance(model.head, config.LanguageHead) and model.head.scaled
    if name == "head.weight" and scaled:
        return tensor * model.d_model**0.5
    if ".attention.query." in name and attention.scale == 0.5:  # folded into the queries
        tensor = tensor / (0.5 * attention.d_head**0.5)
    turned = isinstance(stack.positions, config.Rotary) and stack.norm == LLAMA.norm
    if turned and (".attention.query." in name or ".attention.key." in name):
        back = pairing_order("half_split", attention.d_head, attention.d_head).argsort()
        heads = tensor.reshape(-1, attention.d_head, *tensor.shape[1:])
        return heads[:, back].reshape(tensor.shape)
    return tensor


LLAMA = small_preset("llama3.2-1b").decoder


def outputs(model: Any) -> Tensor:
    with torch.no_grad():
        if model.encoder is not None and model.decoder is not None:
            return model(IDS, encoded=model.encode(IDS))
        return model(IDS) if model.has_head else model.states(IDS)


def test_every_architecture_has_a_case() -> None:
    assert {a.name for a in ARCHITECTURES.values()} == set(MODELS)


@pytest.mark.parametrize("architecture", MODELS)
def test_what_is_read_back_gives_the_same_logits(architecture: str, tmp_path: Path) -> None:
    model = tiny(architecture)
    run = untrained(tmp_path / "run", model)
    exported = runs.export_run(run, tmp_path / "out", file_format="gguf")
    assert exported.family == architecture
    file = tmp_path / "out" / "model-f32.gguf"
    assert fields_of(file)["general.architecture"] == architecture
    before = pellucid.load(run).model
    completed = complete(model, before.state_dict()).model
    again = filled(completed, as_ours(tensors_in(file), completed))
    tolerance = 1e-5 * max(1.0, float(outputs(before).abs().max()))
    torch.testing.assert_close(outputs(again), outputs(before), rtol=0, atol=tolerance)


@pytest.mark.parametrize(("kind", "tolerance"), [("f16", 1e-3), ("bf16", 8e-3), ("q8_0", 8e-3)])
def test_numbers_are_off_by_the_rounding_of_their_type(
    kind: str, tolerance: float, tmp_path: Path
) -> None:
    run = untrained(tmp_path / "run", tiny("llama"))
    for name in ("f32", kind):
        runs.export_run(run, tmp_path / name, file_format="gguf", number_type=name)
    exact = tensors_in(tmp_path / "f32" / "model-f32.gguf")
    rounded = tensors_in(tmp_path / kind / f"model-{kind}.gguf")
    sizes = [(tmp_path / name / f"model-{name}.gguf").stat().st_size for name in ("f32", kind)]
    assert sizes[1] < 0.75 * sizes[0]
    assert exact.keys() == rounded.keys()
    for name, tensor in exact.items():
        largest = float(tensor.abs().max())
        assert float((rounded[name] - tensor).abs().max()) <= tolerance * largest, name
        if tensor.ndim == 1:
            assert torch.equal(rounded[name], tensor), name


def test_sizes_and_special_tokens_are_in_the_file(tmp_path: Path) -> None:
    run = untrained(tmp_path / "run", tiny("gptneox"), template=PLAIN)
    runs.export_run(run, tmp_path / "out", file_format="gguf")
    fields = fields_of(tmp_path / "out" / "model-f32.gguf")
    words = train_bytes()
    assert fields["gptneox.context_length"] == 40
    assert fields["gptneox.attention.head_count"] == 4
    assert fields["gptneox.use_parallel_residual"] is False
    assert fields["tokenizer.ggml.bos_token_id"] == words.begin_id
    assert fields["tokenizer.ggml.add_bos_token"] is True
    assert len(fields["tokenizer.ggml.tokens"]) == 262
    assert fields["tokenizer.chat_template"].startswith("{{ bos_token }}")
    text = (tmp_path / "out" / "Modelfile").read_text(encoding="utf-8")
    assert text.startswith("FROM ./model-f32.gguf\n")
    assert "### Instruction:\n{{ .Prompt }}\n\n### Response:\n{{ .Response }}" in text


def test_a_window_that_llama_cpp_lacks_cuts_the_context(tmp_path: Path) -> None:
    model = tiny("llama")
    decoder = replace(model.decoder, attention=replace(model.decoder.attention, window=9))
    run = untrained(tmp_path / "run", replace(model, decoder=decoder))
    exported = runs.export_run(run, tmp_path / "out", file_format="gguf")
    assert any("cut from 40 to 9 tokens" in note for note in exported.notes)
    assert fields_of(tmp_path / "out" / "model-f32.gguf")["llama.context_length"] == 9


def test_characters_leave_as_merges_of_their_bytes(tmp_path: Path) -> None:
    words = train_characters(["aé日\n b"])
    run = untrained(tmp_path / "run", tiny("gptneox"), tokenizer=words)
    exported = runs.export_run(run, tmp_path / "out", file_format="gguf")
    assert any("leaves out a character" in note for note in exported.notes)
    fields = fields_of(tmp_path / "out" / "model-f32.gguf")
    assert len(fields["tokenizer.ggml.merges"]) == 3  # one for é, two for 日


REFUSED: dict[str, tuple[config.Transformer, Any, str]] = {
    "words": (tiny("gptneox"), train_words(["a cat sat"], 8), "of the kind WordLevel"),
    "own form": (small_preset("nano-encoder"), train_bytes(), "no family of transformers"),
    "activation": (
        replace(
            tiny("gpt2"),
            decoder=replace(
                tiny("gpt2").decoder,
                feed_forward=config.MLP(d_ff=96, activation="relu", bias=True),
            ),
        ),
        train_bytes(),
        "feed_forward.activation is relu",
    ),
    "classes": (
        replace(
            tiny("llama"),
            head=config.ClassificationHead(
                classes=("a", "b"), pooling="last", dropout=0.0, bias=False
            ),
        ),
        train_bytes(),
        "names classes",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_llama_cpp_lacks_is_refused_by_name(case: str, tmp_path: Path) -> None:
    model, words, message = REFUSED[case]
    run = untrained(tmp_path / "run", model, tokenizer=words)
    with pytest.raises((CheckpointError, TextError), match=message):
        runs.export_run(run, tmp_path / "out", file_format="gguf")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run"]


def test_the_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    run = untrained(tmp_path / "run", tiny("gptneox"))
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(PellucidError, match=r"pellucid\[gguf\]"):
        runs.export_run(run, tmp_path / "out", file_format="gguf")
    assert not (tmp_path / "out").exists()


def test_byte_pairs_keep_their_merges(tmp_path: Path) -> None:
    words = train_byte_pairs(["the cat sat on the mat"] * 9, 262)
    run = untrained(tmp_path / "run", tiny("gptneox"), tokenizer=words)
    runs.export_run(run, tmp_path / "out", file_format="gguf")
    fields = fields_of(tmp_path / "out" / "model-f32.gguf")
    assert fields["tokenizer.ggml.merges"] == [f"{a} {b}" for a, b in words.merges()]
    assert fields["tokenizer.ggml.pre"] == "gpt-2"
