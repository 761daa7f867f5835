"""Models of Hugging Face: healthy ones are passed in silence, and faults in them are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from pellucid.diagnosis import check
from support.faults import text

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]


def made(family: str, **changes: Any) -> torch.nn.Module:
    """A small model of a family, with the weights its own code draws."""
    import transformers

    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "vocab_size": 64,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "intermediate_size": 64,
        "max_position_embeddings": 64,
        "pad_token_id": 0,
    }
    if family == "GPT2":
        sizes = {"vocab_size": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
    if family == "T5":
        sizes = {"vocab_size": 64, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2}
        sizes |= {"num_heads": 4, "decoder_start_token_id": 0}
    if family == "Bert":
        sizes = {k: v for k, v in sizes.items() if k not in ("num_key_value_heads", "head_dim")}
    settings = getattr(transformers, f"{family}Config")(**(sizes | changes))
    head = {"GPT2": "LMHeadModel", "T5": "ForConditionalGeneration", "Bert": "ForMaskedLM"}
    return getattr(transformers, family + head.get(family, "ForCausalLM"))(settings)


FAMILIES = ["GPT2", "Llama", "Qwen2", "Qwen3", "Mistral", "Gemma2", "GPTNeoX", "Bert", "T5"]


@pytest.mark.parametrize("family", FAMILIES)
def test_healthy_model_is_passed_in_silence(family: str) -> None:
    model = made(family)
    ids = text()[:, :24]
    causal = family not in ("Bert", "T5")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    findings = check(model, ids if causal else None, ids if causal else None, optimizer=optimizer)
    assert [each.text() for each in findings if each.severity != "note"] == []


def _noncausal(model: Any) -> None:
    from torch.nn import functional as F

    plain = F.scaled_dot_product_attention

    def blind(q: Any, k: Any, v: Any, attn_mask: Any = None, **said: Any) -> Any:
        return plain(q, k, v, **{**said, "is_causal": False})

    for layer in model.model.layers:
        forward = layer.self_attn.forward

        def without(*arguments: Any, of: Any = forward, **said: Any) -> Any:
            F.scaled_dot_product_attention = blind
            torch.nn.functional.scaled_dot_product_attention = blind
            try:
                return of(*arguments, **said)
            finally:
                F.scaled_dot_product_attention = plain

        layer.self_attn.forward = without


def _untie(model: Any) -> None:
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())


def _freeze(model: Any) -> None:
    model.model.layers[0].requires_grad_(False)


FAULTS: dict[str, tuple[str, dict[str, Any], Callable[[Any], None]]] = {
    "ATT001": ("Llama", {}, _noncausal),
    "TIE001": ("Llama", {"tie_word_embeddings": True}, _untie),
    "GRD003": ("Llama", {}, _freeze),
}


@pytest.mark.parametrize("code", FAULTS)
def test_fault_in_a_model_of_hugging_face_is_found(code: str) -> None:
    family, changes, inject = FAULTS[code]
    healthy, broken = made(family, **changes), made(family, **changes)
    inject(broken)
    assert code not in {each.code for each in check(healthy)}
    assert code in {each.code for each in check(broken)}


def test_labels_that_are_moved_before_hugging_face_moves_them_are_found() -> None:
    ids = text()[:, :24]
    moved = torch.full_like(ids, -100)
    moved[:, :-1] = ids[:, 1:]
    model = made("Llama")
    assert "LOS002" in {each.code for each in check(model, ids, moved)}
    assert "LOS002" not in {each.code for each in check(model, ids, ids)}
