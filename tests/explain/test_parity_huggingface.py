"""A Hugging Face directory of random weights: every head's weights equal those in transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import pellucid
from pellucid.explain import Trace
from pellucid.explain.chapter_types import Place
from pellucid.explain.chapters import CHAPTERS, build_chapter
from pellucid.tokenizers import settings_for, train_bytes

pytestmark = pytest.mark.parity

_SHAPE: dict[str, Any] = {
    "vocab_size": 300,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}
_GROUPED = {**_SHAPE, "num_key_value_heads": 2}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "GPT2LMHeadModel": (
        "GPT2Config",
        {"vocab_size": 300, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64},
    ),
    "LlamaForCausalLM": ("LlamaConfig", _GROUPED),
    "MistralForCausalLM": ("MistralConfig", {**_GROUPED, "sliding_window": 5}),
    "Qwen3ForCausalLM": ("Qwen3Config", {**_GROUPED, "head_dim": 8}),
    "Gemma2ForCausalLM": (
        "Gemma2Config",
        {**_GROUPED, "head_dim": 8, "sliding_window": 5, "query_pre_attn_scalar": 8},
    ),
    "GPTNeoXForCausalLM": ("GPTNeoXConfig", {**_SHAPE, "rotary_pct": 0.5}),
    "BertForMaskedLM": ("BertConfig", _SHAPE),
}


def published(folder: Path, kind: str, settings: str, numbers: dict[str, Any]) -> Any:
    """A model of transformers with random weights, saved with a tokenizer of bytes."""
    hf = pytest.importorskip("transformers", reason="transformers is not installed")
    torch.manual_seed(0)
    hf_config = getattr(hf, settings)(**numbers, attn_implementation="eager")
    model = getattr(hf, kind)(hf_config).eval()
    for parameter in model.parameters():
        # random starts are so small that all weights would be nearly even
        parameter.data += 0.1 * torch.randn_like(parameter)
    if hasattr(model, "tie_weights"):
        model.tie_weights()
    model.save_pretrained(folder)
    words = train_bytes()
    words.save(folder / "tokenizer.json")
    (folder / "tokenizer_config.json").write_text(settings_for(words.roles(), context_length=64))
    return model


def check_heads(trace: Trace, letter: str, attentions: Any, cross: str = "") -> None:
    """Each head's weights are those that transformers gives."""
    for layer, expected in enumerate(attentions):
        for head in range(expected.shape[1]):
            weights = trace[f"{letter}{layer}.H{head}.{cross}weights"]
            _close(weights, expected[0, head])


def _close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other.detach(), rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("kind", MODELS)
def test_heads_states_and_logits_are_those_of_transformers(kind: str, tmp_path: Path) -> None:
    settings, numbers = MODELS[kind]
    model = published(tmp_path / "model", kind, settings, numbers)
    run = pellucid.load(tmp_path / "model")
    trace = pellucid.trace(run, "the quick fox")
    outputs = model(trace.ids[None], output_attentions=True, output_hidden_states=True)
    _close(trace["logits"], outputs.logits[0])
    letter = "E" if kind.startswith("Bert") else "L"
    check_heads(trace, letter, outputs.attentions)
    for layer, state in enumerate(outputs.hidden_states[:-1]):
        _close(trace[f"{letter}{layer}.residual"], state[0])
    for entry in CHAPTERS:
        chapter = build_chapter(
            trace, entry.id, Place(token=5, other=3, layer=1, head=2, feature=7)
        )
        assert all(receipt.agrees for receipt in chapter.receipts)


def test_the_three_attentions_of_t5_are_those_of_transformers(tmp_path: Path) -> None:
    numbers = {"vocab_size": 300, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2}
    model = published(
        tmp_path / "model", "T5ForConditionalGeneration", "T5Config", {**numbers, "num_heads": 4}
    )
    source, ids = torch.tensor([[5, 9, 2, 44, 7]]), torch.tensor([[0, 8, 3]])
    run = pellucid.load(tmp_path / "model")
    trace = pellucid.trace(run.model, ids=ids, source_ids=source)
    outputs = model(input_ids=source, decoder_input_ids=ids, output_attentions=True)
    _close(trace["logits"], outputs.logits[0])
    check_heads(trace, "E", outputs.encoder_attentions)
    check_heads(trace, "L", outputs.decoder_attentions)
    check_heads(trace, "L", outputs.cross_attentions, "cross.")


@pytest.mark.parametrize("kind", ["GPT2LMHeadModel", "LlamaForCausalLM", "Gemma2ForCausalLM"])
def test_all_gradients_together_are_as_long_as_those_of_transformers(
    kind: str, tmp_path: Path
) -> None:
    settings, numbers = MODELS[kind]
    model = published(tmp_path / "model", kind, settings, numbers).double()
    run = pellucid.load(tmp_path / "model")
    run.model.double()
    trace = pellucid.trace(run, "the quick fox")
    outputs = model(trace.ids[None], labels=trace.ids[None], output_hidden_states=True)
    for state in outputs.hidden_states[:-1]:
        state.retain_grad()
    outputs.loss.backward()
    gradients = trace.backward()
    norm = torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None]).norm()
    assert gradients.norm == pytest.approx(float(norm), rel=1e-6)
    for layer, state in enumerate(outputs.hidden_states[:-1]):
        _close(gradients[f"L{layer}.residual.grad"], state.grad[0])
    _close(gradients["token_embedding.weight.grad"], model.get_input_embeddings().weight.grad)
