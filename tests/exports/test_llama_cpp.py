"""GGUF files run by llama.cpp: the same tokens, the same greedy text, logits within rounding.

`llama-cpp-python` compiles for minutes, so this runs at night.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pellucid
from pellucid import runs
from pellucid.generation import Sampling, continue_ids
from pellucid.tokenizers import Tokenizer, train_bytes
from pellucid.tokenizers.train import train_byte_pairs, train_characters
from support.exported import untrained
from support.gguf_models import tiny

pytestmark = [pytest.mark.nightly, pytest.mark.filterwarnings("default")]

llama_cpp: Any = pytest.importorskip("llama_cpp")
TEXTS = ["the cat sat", " 12 dogs' ", "  two  blanks\n\nand 's"]
#: Its GELU is an approximation by a table of half-precision numbers.
TOLERANCE = {"llama": 1e-4, "qwen2": 1e-4, "qwen3": 1e-4, "olmo2": 1e-4, "gemma2": 2e-2,
             "gptneox": 2e-2, "gpt2": 2e-2}  # fmt: skip


def opened(folder: Path, kind: str = "f32", *, n_ctx: int = 40) -> Any:
    """The model of a folder, with a cache of float32: by default llama.cpp rounds keys to half."""
    return llama_cpp.Llama(
        str(folder / f"model-{kind}.gguf"),
        n_ctx=n_ctx,
        n_threads=1,
        logits_all=True,
        verbose=False,
        type_k=llama_cpp.GGML_TYPE_F32,
        type_v=llama_cpp.GGML_TYPE_F32,
    )


def logits_of(llama: Any, ids: list[int]) -> np.ndarray:
    llama.reset()
    llama.eval(ids)
    return np.array(llama.scores[: len(ids)])


@pytest.mark.parametrize("architecture", TOLERANCE)
def test_logits_are_those_of_the_model(architecture: str, tmp_path: Path) -> None:
    run = untrained(tmp_path / "run", tiny(architecture))
    runs.export_run(run, tmp_path / "out", file_format="gguf")
    model, llama = pellucid.load(run).model, opened(tmp_path / "out")
    ids = torch.randint(0, 256, (1, 30), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        expected = model(ids)[0].numpy()
    distance = np.abs(logits_of(llama, ids[0].tolist()) - expected).max()
    assert distance <= TOLERANCE[architecture] * max(1.0, np.abs(expected).max())


TOKENIZERS = {
    "bytes": train_bytes,
    "byte pairs": lambda: train_byte_pairs(TEXTS * 9, 262),
    "characters": lambda: train_characters(TEXTS),
}


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_texts_have_the_same_tokens(kind: str, tmp_path: Path) -> None:
    words: Tokenizer = TOKENIZERS[kind]()
    run = untrained(tmp_path / "run", tiny("llama"), tokenizer=words)
    runs.export_run(run, tmp_path / "out", file_format="gguf")
    llama = opened(tmp_path / "out")
    for text in TEXTS:
        got = llama.tokenize(text.encode(), add_bos=True, special=False)
        assert got == words.encode_prompt(text), text


def test_a_trained_model_writes_the_same_hundred_tokens(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 400, encoding="utf-8")
    pellucid.train(
        [text],
        out=tmp_path / "run",
        steps=60,
        settings=["model.context_length=128", "model.d_model=64", "text.tokenizer=Bytes",
                  "model.decoder.n_layers=2", "model.decoder.attention.d_head=32"],
        show=False,
    )  # fmt: skip
    run = pellucid.load(tmp_path / "run")
    prompt = run.tokenizer.encode_prompt("the quick")
    steps = continue_ids(run.model, [prompt], Sampling(temperature=0.0))
    expected = [next(steps)[0] for _ in range(100)]
    for kind, tolerance in (("f32", 2e-2), ("f16", 3e-2), ("q8_0", 1e-1)):
        runs.export_run(tmp_path / "run", tmp_path / kind, file_format="gguf", number_type=kind)
        llama = opened(tmp_path / kind, kind, n_ctx=128)
        ids = list(prompt)
        for _ in range(100):
            llama.reset()
            llama.eval(ids)
            ids.append(int(np.argmax(llama.scores[len(ids) - 1])))
        assert ids[len(prompt) :] == expected, kind
        with torch.no_grad():
            logits = run.model(torch.tensor([ids[:-1]]))[0].numpy()
        distance = np.abs(np.array(llama.scores[: len(ids) - 1]) - logits).max()
        assert distance <= tolerance * np.abs(logits).max(), kind
