"""The same weights give the same numbers as the reference implementation, `transformers`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from pellucid import config
from pellucid.model import Transformer, assemble
from support.models import BASE, random_ids, with_stack

pytestmark = pytest.mark.parity


def gpt2() -> tuple[Any, Transformer]:
    """A tiny GPT-2 of `transformers`, and ours with its weights."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    reference_model = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=23, n_positions=16, n_embd=16, n_layer=2, n_head=4, n_inner=32,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, initializer_range=0.3,
        )
    )  # fmt: skip
    attention = replace(BASE.decoder.attention, qkv_bias=True, out_bias=True)
    feed_forward = config.MLP(d_ff=32, activation="gelu_tanh", bias=True)
    stack = with_stack(positions=config.Learned(), attention=attention, feed_forward=feed_forward)
    own_model = assemble(
        replace(stack, embedding=config.Embedding(tied=True, scaled=False)), seed=0
    )
    state = reference_model.transformer.state_dict()
    renamed = {
        "token_embedding.weight": state["wte.weight"],
        "decoder.positions.embedding.weight": state["wpe.weight"],
        "decoder.final_norm.gain": state["ln_f.weight"],
        "decoder.final_norm.bias": state["ln_f.bias"],
    }
    for layer in range(2):
        a, b = f"h.{layer}.", f"decoder.blocks.{layer}."
        for theirs_name, ours_name in (("ln_1", "attention_norm"), ("ln_2", "feed_forward_norm")):
            renamed[f"{b}{ours_name}.gain"] = state[f"{a}{theirs_name}.weight"]
            renamed[f"{b}{ours_name}.bias"] = state[f"{a}{theirs_name}.bias"]
        # their Conv1D stores (in, out), and queries, keys and values in one matrix
        weights = state[f"{a}attn.c_attn.weight"].T.chunk(3)
        biases = state[f"{a}attn.c_attn.bias"].chunk(3)
        for name, weight, bias in zip(("query", "key", "value"), weights, biases, strict=True):
            renamed[f"{b}attention.{name}.weight"] = weight
            renamed[f"{b}attention.{name}.bias"] = bias
        for theirs_name, ours_name in (
            ("attn.c_proj", "attention.output"),
            ("mlp.c_fc", "feed_forward.up"),
            ("mlp.c_proj", "feed_forward.down"),
        ):
            renamed[f"{b}{ours_name}.weight"] = state[f"{a}{theirs_name}.weight"].T
            renamed[f"{b}{ours_name}.bias"] = state[f"{a}{theirs_name}.bias"]
    own_model.load_state_dict(renamed)
    return reference_model, own_model


def llama() -> tuple[Any, Transformer]:
    """A tiny Llama with grouped queries, and ours with its weights."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    reference_model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=23, max_position_embeddings=16, hidden_size=16, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, head_dim=4, intermediate_size=24,
            rms_norm_eps=1e-5, initializer_range=0.3, tie_word_embeddings=False,
        )
    )  # fmt: skip
    own_model = assemble(
        with_stack(
            attention=replace(BASE.decoder.attention, n_kv_heads=2),
            feed_forward=config.GatedMLP(d_ff=24, activation="silu", bias=False),
            norm=config.RMSNorm(eps=1e-5),
        ),
        seed=0,
    )
    state = reference_model.state_dict()
    renamed = {
        "token_embedding.weight": state["model.embed_tokens.weight"],
        "decoder.final_norm.gain": state["model.norm.weight"],
        "head.weight": state["lm_head.weight"],
    }
    pairs = {
        "input_layernorm.weight": "attention_norm.gain",
        "post_attention_layernorm.weight": "feed_forward_norm.gain",
        "self_attn.q_proj.weight": "attention.query.weight",
        "self_attn.k_proj.weight": "attention.key.weight",
        "self_attn.v_proj.weight": "attention.value.weight",
        "self_attn.o_proj.weight": "attention.output.weight",
        "mlp.gate_proj.weight": "feed_forward.gate.weight",
        "mlp.up_proj.weight": "feed_forward.up.weight",
        "mlp.down_proj.weight": "feed_forward.down.weight",
    }
    for layer in range(2):
        for name, ours_name in pairs.items():
            renamed[f"decoder.blocks.{layer}.{ours_name}"] = state[f"model.layers.{layer}.{name}"]
    own_model.load_state_dict(renamed)
    return reference_model, own_model


@pytest.mark.parametrize("family", [gpt2, llama])
def test_logits_and_loss_gradients_equal(family: Any) -> None:
    reference_model, own_model = family()
    reference_model, own_model = reference_model.double().eval(), own_model.double().eval()
    ids = random_ids(3, 16)
    reference = reference_model(ids).logits
    # rotary tables and RMSNorm of the reference are float32 inside, whatever the weights
    tolerance = 1e-10 if family is gpt2 else 1e-5
    torch.testing.assert_close(own_model(ids), reference, rtol=tolerance, atol=tolerance)
    weight = torch.randn_like(reference)
    reference_model.zero_grad()
    (reference * weight).mean().backward()
    (own_model(ids) * weight).mean().backward()
    total = sum(p.grad.square().sum() for p in reference_model.parameters())
    ours_total = sum(p.grad.square().sum() for p in own_model.parameters())
    torch.testing.assert_close(ours_total, total, rtol=1e-5, atol=0)


@pytest.mark.parametrize("family", [gpt2, llama])
def test_greedy_text_equals(family: Any) -> None:
    from pellucid.generation import Sampling, continue_ids

    reference_model, own_model = family()
    reference_model, own_model = reference_model.eval(), own_model.eval()
    prompt = random_ids(1, 4)
    reference = reference_model.generate(
        prompt, max_new_tokens=10, do_sample=False, pad_token_id=0, eos_token_id=None
    )[0, 4:].tolist()
    steps = continue_ids(own_model, prompt.tolist(), Sampling(temperature=0.0))
    assert [next(steps)[0] for _ in range(10)] == reference
