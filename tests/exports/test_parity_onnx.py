"""ONNX files give the model's numbers for any batch and any length, run by `onnxruntime`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import pellucid
from pellucid import config, runs
from pellucid.errors import CheckpointError
from pellucid.model import Encoded
from support.exported import small_preset, untrained

pytestmark = [
    pytest.mark.parity,
    # not ours to repair
    pytest.mark.filterwarnings("default"),
]

onnxruntime: Any = pytest.importorskip("onnxruntime")
CLASSES = config.ClassificationHead(classes=("a", "b"), pooling="mean", dropout=0.1, bias=True)


def windowed() -> config.Transformer:
    model = small_preset("nano", d_model=32)
    attention = replace(model.decoder.attention, window=8)
    return replace(model, decoder=replace(model.decoder, attention=attention))


MODELS = {
    "decoder": small_preset("nano", d_model=32),
    "windows": windowed(),
    "encoder": small_preset("nano-encoder", d_model=32),
    "classes": small_preset("nano-encoder", d_model=32, head=CLASSES),
    "states": small_preset("nano-encoder", d_model=32, head=config.NoHead()),
    "encoder-decoder": small_preset("nano-pair", d_model=32),
    "bucketed biases": small_preset("t5-1.1-small", d_model=32),
}


@pytest.mark.parametrize("case", MODELS)
def test_outputs_equal_for_other_batches_and_lengths(case: str, tmp_path: Path) -> None:
    run = untrained(tmp_path / "run", MODELS[case])
    runs.export_run(run, tmp_path / "out", file_format="onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "out" / "model.onnx"))
    model = pellucid.load(run).model
    for batch, length in ((1, 1), (2, 7), (3, 40)):
        ids = torch.randint(2, 250, (batch, length))
        mask = torch.ones_like(ids)
        mask[0, max(1, length - 3) :] = 0
        decoder_ids = ids[:, : max(1, length // 2)]
        inputs = {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": decoder_ids}
        arrays = {
            session_input.name: inputs[session_input.name].numpy()
            for session_input in session.get_inputs()
        }
        output = torch.tensor(session.run(None, arrays)[0])
        padding = mask.bool() if "attention_mask" in arrays else None
        with torch.no_grad():
            if "decoder_input_ids" in arrays:
                encoded = model.encode(ids, padding=padding)
                expected = model(decoder_ids, encoded=Encoded(encoded.states, padding))
            elif case == "states":
                expected = model.states(ids, padding=padding)
            else:
                expected = model(ids, padding=padding)
        scale = max(1.0, float(expected.abs().max()))
        torch.testing.assert_close(output, expected, rtol=0, atol=1e-5 * scale)
    assert (tmp_path / "out" / "tokenizer.json").is_file()


def test_attention_in_chunks_is_refused_at_once(tmp_path: Path) -> None:
    model = small_preset("nano", d_model=32)
    attention = config.LinearAttention(
        n_heads=2, d_head=16, qkv_bias=False, out_bias=False, chunk=8
    )
    model = replace(model, decoder=replace(model.decoder, attention=attention))
    run = untrained(tmp_path / "run", model)
    with pytest.raises(CheckpointError, match="LinearAttention, which reads a text in chunks"):
        runs.export_run(run, tmp_path / "out", file_format="onnx")
    assert not (tmp_path / "out").exists()
