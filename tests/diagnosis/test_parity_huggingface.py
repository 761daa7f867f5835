"""Models of Hugging Face: healthy ones are passed in silence, and faults in them are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from pellucid.diagnosis import check, diagnose, history_of_watch
from pellucid.vitals import watch
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


def made_of(family: str, kind: str = "ForCausalLM", **sizes: Any) -> torch.nn.Module:
    """A small model whose config is named otherwise than most."""
    import transformers

    torch.manual_seed(0)
    settings = getattr(transformers, f"{family}Config")(vocab_size=37, pad_token_id=0, **sizes)
    return getattr(transformers, family + kind)(settings)


_BERT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
_BERT |= {"intermediate_size": 64, "max_position_embeddings": 64}
_STATES = {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 4}
_XLM: dict[str, Any] = {"emb_dim": 32, "n_layers": 2, "n_heads": 4, "max_position_embeddings": 64}
_THIN: dict[str, Any] = {"embedding_size": 32, "intra_bottleneck_size": 32, "true_hidden_size": 32}
_GRIFFIN: dict[str, Any] = {"num_hidden_layers": 3, "num_key_value_heads": 1, "head_dim": 8}
_GRIFFIN |= {"lru_width": 32, "attention_window_size": 8}
_RWKV: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "attention_hidden_size": 32}
#: What each of them looked like, and is not.
TAKEN_FOR_FAULTS: dict[str, tuple[Callable[[], torch.nn.Module], set[str]]] = {
    # rotary positions are made, and ALiBi is used
    "falcon, alibi": (lambda: made_of("Falcon", **_BERT, alibi=True), {"POS002"}),
    # a recurrent layer comes before the first attention
    "recurrent gemma": (
        lambda: made_of("RecurrentGemma", **_BERT | _GRIFFIN),
        {"POS002"},
    ),
    # ramps that are the same in every layer, and not drawn
    "falcon mamba": (lambda: made_of("FalconMamba", **_STATES), {"INI003"}),
    "mamba": (lambda: made_of("Mamba", **_STATES), {"INI003"}),
    "rwkv": (lambda: made_of("Rwkv", **_RWKV), {"INI003"}),
    # weights without a single number
    "mobilebert": (
        lambda: made_of("MobileBert", "ForMaskedLM", **_BERT | _THIN),
        {"SEE001", "GRD002"},
    ),
    # more positions than tokens; a model of both ways that says so in its config
    "xlm": (lambda: made_of("XLM", "WithLMHeadModel", **_XLM), {"TIE001", "ATT001"}),
    # each token sees two others on either side
    "longformer": (
        lambda: made_of("Longformer", "ForMaskedLM", **_BERT, attention_window=4),
        {"ATT005"},
    ),
}


@pytest.mark.parametrize("name", TAKEN_FOR_FAULTS)
def test_what_only_looks_like_a_fault_is_not_called_one(name: str) -> None:
    make, codes = TAKEN_FOR_FAULTS[name]
    assert codes & {each.code for each in check(make())} == set()


def test_matrices_that_were_drawn_alike_are_still_found() -> None:
    model: Any = made_of("FalconMamba", **_STATES)
    first, second = (layer.mixer.x_proj.weight for layer in model.backbone.layers)
    with torch.no_grad():
        second.copy_(first)
    assert "INI003" in {each.code for each in check(model)}


def trained(model: torch.nn.Module, updates: int = 5) -> set[str]:
    """The codes of what is found after a few updates."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    with watch(model, optimizer, max_overhead=None) as w:
        for update in range(updates):
            draws = torch.Generator().manual_seed(update)
            ids = torch.randint(3, 37, (4, 12), generator=draws)
            loss = model.train()(input_ids=ids, labels=ids)[0]
            loss.backward()
            w.step(loss)
            optimizer.step()
            optimizer.zero_grad()
        return {each.code for each in diagnose(history_of_watch(w))}


def test_what_only_looks_like_a_cause_is_not_called_one() -> None:
    olmo = {**_BERT, "eos_token_id": 2}
    # a norm without weights; attentions and norms in lists of their own; a gate that begins small
    assert "ARC003" not in trained(made_of("Olmo", **olmo))
    assert "ARC001" not in trained(made_of("XLM", "WithLMHeadModel", **_XLM))
    assert "ARC009" not in trained(made_of("Olmo2", **olmo))
    # -log p of next to nothing, of which dropout makes a multiple
    funnel = {"d_model": 32, "n_head": 4, "d_head": 8, "d_inner": 64, "block_sizes": [1, 1]}
    assert not {"LOS005", "LOS006", "LOS007"} & trained(made_of("Funnel", "ForMaskedLM", **funnel))


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
