"""GGUF files run by llama.cpp: the same tokens, the same greedy text, logits within rounding.

`llama-cpp-python` compiles for minutes, so this runs at night.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import pellucid
from pellucid import config, runs
from pellucid.generation import Sampling, continue_ids
from pellucid.tokenizers import Tokenizer, train_bytes
from pellucid.tokenizers.train import train_byte_pairs, train_characters
from support.exported import untrained
from support.gguf_models import MODELS, tiny

pytestmark = [pytest.mark.nightly, pytest.mark.filterwarnings("default")]

llama_cpp: Any = pytest.importorskip("llama_cpp")
TEXTS = ["the cat sat", " 12 dogs' ", "  two  blanks\n\nand 's"]
#: Its GELU is an approximation by a table of half-precision numbers.
GELU, OTHERS = 2e-2, 1e-4


def opened(folder: Path, kind: str = "f32", *, n_ctx: int = 40, **settings: Any) -> Any:
    """The model of a folder, with a cache of float32: by default llama.cpp rounds keys to half."""
    return llama_cpp.Llama(
        str(folder / f"model-{kind}.gguf"),
        n_ctx=n_ctx,
        n_threads=1,
        verbose=False,
        type_k=llama_cpp.GGML_TYPE_F32,
        type_v=llama_cpp.GGML_TYPE_F32,
        **{"logits_all": True, **settings},
    )


def logits_of(llama: Any, ids: list[int]) -> np.ndarray:
    llama.reset()
    llama.eval(ids)
    return np.array(llama.scores[: len(ids)])


def drawn(n: int, seed: int = 2) -> list[int]:
    return torch.randint(0, 256, (n,), generator=torch.Generator().manual_seed(seed)).tolist()


def assert_close(got: np.ndarray, expected: Tensor, model: config.Transformer) -> None:
    kinds = {layer.feed_forward for stack in model.stacks for layer in stack.layers}
    has_gelu = any("gelu" in getattr(kind, "activation", "") for kind in kinds)
    expected_array = expected.numpy()
    distance = np.abs(got - expected_array).max()
    assert distance <= (GELU if has_gelu else OTHERS) * max(1.0, np.abs(expected_array).max())


DECODERS = [name for name in MODELS if tiny(name).encoder is None]
ENCODERS = [name for name in MODELS if tiny(name).decoder is None]
PAIRS = [name for name in MODELS if name not in (*DECODERS, *ENCODERS)]


@pytest.mark.parametrize("case", DECODERS)
def test_logits_of_a_greedy_text_are_those_of_the_model(case: str, tmp_path: Path) -> None:
    model_config = tiny(case)
    run = untrained(tmp_path / "run", model_config)
    runs.export_run(run, tmp_path / "out", file_format="gguf")
    n_ctx = min(120, model_config.context_length)
    model, llama = pellucid.load(run).model, opened(tmp_path / "out", n_ctx=n_ctx)
    # the file's context is no longer than a window that the architecture does not have
    length, ids = min(n_ctx, llama._model.n_ctx_train()), drawn(20)
    llama.eval(ids)
    while len(ids) < length:  # one token at a time, through the cache
        ids.append(int(np.argmax(llama.scores[len(ids) - 1])))
        llama.eval(ids[-1:])
    with torch.no_grad():
        expected = model(torch.tensor([ids]))[0]
    assert_close(np.array(llama.scores[:length]), expected, model_config)
    assert_close(logits_of(llama, ids), expected, model_config)  # all tokens at once


def rows_of(read: Any, llama: Any, n: int, width: int) -> np.ndarray:
    """The vectors of the last call."""
    pointers = (read(llama._ctx.ctx, place) for place in range(n))
    return np.array([np.ctypeslib.as_array(pointer, (width,)).copy() for pointer in pointers])


@pytest.mark.parametrize("case", ENCODERS)
def test_states_are_those_of_the_encoder(case: str, tmp_path: Path) -> None:
    model_config = tiny(case)
    run = untrained(tmp_path / "run", model_config)
    runs.export_run(run, tmp_path / "out", file_format="gguf")
    model, ids = pellucid.load(run).model, drawn(30)
    llama = opened(
        tmp_path / "out",
        logits_all=False,
        embedding=True,
        pooling_type=llama_cpp.LLAMA_POOLING_TYPE_NONE,
    )
    llama._batch.add_sequence(ids, 0, True)
    llama._ctx.decode(llama._batch)
    with torch.no_grad():
        expected = model.states(torch.tensor([ids]))[0]
    states = rows_of(llama_cpp.llama_get_embeddings_ith, llama, len(ids), model_config.d_model)
    assert_close(states, expected, model_config)


@pytest.mark.parametrize("case", PAIRS)
def test_logits_are_those_of_the_encoder_decoder(case: str, tmp_path: Path) -> None:
    model_config = tiny(case)
    run = untrained(tmp_path / "run", model_config)
    runs.export_run(run, tmp_path / "out", file_format="gguf")
    model, llama = pellucid.load(run).model, opened(tmp_path / "out")
    source, ids = drawn(30), drawn(25, seed=3)
    llama._batch.set_batch(source, 0, True)
    llama._ctx.encode(llama._batch)
    llama._batch.set_batch(ids, 0, True)
    llama._ctx.decode(llama._batch)
    with torch.no_grad():
        expected = model(torch.tensor([ids]), encoded=model.encode(torch.tensor([source])))[0]
    logits = rows_of(llama_cpp.llama_get_logits_ith, llama, len(ids), model_config.rows)
    assert_close(logits, expected, model_config)


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
        llama_ids = llama.tokenize(text.encode(), add_bos=True, special=False)
        assert llama_ids == words.encode_prompt(text), text


#: `nano` as it is, and as a Mixtral.
TRAINED: dict[str, list[str]] = {
    "nano": [],
    "mixtral": [
        'model.decoder.norm={kind="RMSNorm", eps=1e-5}',
        "model.embedding.tied=false",
        'model.decoder.feed_forward={kind="Experts", n_experts=4, n_active=2, load_loss=0.01, '
        'expert={kind="GatedMLP", d_ff=64, activation="silu", bias=false}, '
        'router={scores="softmax", normalised=true}}',
    ],
}


@pytest.mark.parametrize("name", TRAINED)
def test_a_trained_model_writes_the_same_hundred_tokens(name: str, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 400, encoding="utf-8")
    pellucid.train(
        [text],
        out=tmp_path / "run",
        steps=60,
        settings=["model.context_length=128", "model.d_model=64", "text.tokenizer=Bytes",
                  "model.decoder.n_layers=2", "model.decoder.attention.d_head=32", *TRAINED[name]],
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
