"""Each part against its equation."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from pellucid import config
from pellucid.maths import depth_scale, he_std, rotary_frequencies, xavier_std
from pellucid.model import (
    KeyValueCache,
    LayerNorm,
    RMSNorm,
    Rotary,
    View,
    assemble,
    no_residual,
    post_norm,
    pre_norm,
)
from support.models import BASE, VARIANTS, build, random_ids, with_attention, with_stack


def test_rms_norm_equals_torch_in_value_and_gradient() -> None:
    norm = RMSNorm(8, eps=1e-6).double()
    with torch.no_grad():
        norm.gain.uniform_(0.5, 2.0, generator=torch.Generator().manual_seed(0))
    x = torch.randn(3, 5, 8, dtype=torch.float64, requires_grad=True)
    reference = F.rms_norm(x, (8,), norm.gain, 1e-6)
    towards = torch.randn_like(x)
    own_grads = torch.autograd.grad((norm(x) * towards).sum(), (x, norm.gain))
    torch_grads = torch.autograd.grad((reference * towards).sum(), (x, norm.gain))
    torch.testing.assert_close(norm(x), reference)
    torch.testing.assert_close(own_grads, torch_grads)


def test_rms_norm_of_bfloat16_is_computed_wide() -> None:
    x = torch.randn(4, 64).bfloat16()
    norm = RMSNorm(64, eps=1e-6)
    wide = F.rms_norm(x.float(), (64,), norm.gain, 1e-6)
    assert norm(x).dtype == torch.bfloat16
    torch.testing.assert_close(norm(x).float(), wide, rtol=2**-7, atol=0)


def test_layer_norm_has_the_moments_it_claims() -> None:
    x = torch.randn(2, 5, 32, dtype=torch.float64) * 7 + 3
    y = LayerNorm(32, eps=1e-9, bias=True).double()(x)
    torch.testing.assert_close(
        y.mean(-1), torch.zeros(2, 5, dtype=torch.float64), atol=1e-9, rtol=0
    )
    torch.testing.assert_close(y.var(-1, correction=0), torch.ones(2, 5, dtype=torch.float64))


def frequencies(base: float) -> torch.Tensor:
    return rotary_frequencies(torch.arange(4, dtype=torch.float64), n_rotated=8, base=base)


def at(start: int) -> View:
    return View(start=start, causal=True)


def test_rotary_scores_depend_on_the_distance_alone() -> None:
    rotary = Rotary(context_length=64, frequencies=frequencies(10_000.0))
    q, k = torch.randn(2, 1, 1, 1, 8).double()
    scores = {
        (m, n): (rotary.rotate(q, at(m)) * rotary.rotate(k, at(n))).sum()
        for m, n in ((3, 1), (40, 38), (61, 59))
    }
    first, *others = scores.values()
    for other in others:
        torch.testing.assert_close(first, other, rtol=1e-6, atol=1e-6)


def test_rotary_keeps_lengths() -> None:
    rotary = Rotary(context_length=32, frequencies=frequencies(100.0))
    x = torch.randn(1, 2, 20, 8)
    torch.testing.assert_close(rotary.rotate(x, at(5)).norm(dim=-1), x.norm(dim=-1))


def test_grouped_heads_equal_full_heads_with_repeated_keys() -> None:
    grouped = build(with_attention(n_kv_heads=2))
    full = build(BASE)
    weights = grouped.state_dict()
    for name, value in list(weights.items()):
        if "attention.key" in name or "attention.value" in name:
            heads = value.unflatten(0, (2, 4))
            weights[name] = heads.repeat_interleave(2, dim=0).flatten(0, 1)
    full.load_state_dict(weights)
    ids = random_ids(2, 9)
    torch.testing.assert_close(grouped(ids), full(ids), rtol=0, atol=1e-10)


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "products"])
@pytest.mark.parametrize("n_kv_heads", [4, 2])
def test_attention_equals_the_equation(fused: bool, n_kv_heads: int) -> None:
    model = build(with_attention(n_kv_heads=n_kv_heads)).train()
    block = model.decoder.blocks[0]
    block.attention.fused = fused
    x = torch.randn(2, 6, 16, dtype=torch.float64)
    attention, positions = block.attention, model.decoder.positions

    def heads(y: torch.Tensor) -> torch.Tensor:
        split = y.unflatten(-1, (-1, 4)).transpose(1, 2)
        return split.repeat_interleave(4 // split.shape[1], dim=1)

    q = positions.rotate(heads(attention.query(x)), at(0))
    k = positions.rotate(heads(attention.key(x)), at(0))
    scores = q @ k.mT / math.sqrt(4) + torch.full((6, 6), -math.inf).triu(1).double()
    mixed = (scores.softmax(-1) @ heads(attention.value(x))).transpose(1, 2).flatten(2)
    cache = KeyValueCache(context_length=16)
    torch.testing.assert_close(attention.output(mixed), attention(x, positions, at(0), cache))


@pytest.mark.parametrize(
    ("rule", "expected"),
    [(pre_norm, 3 + 10 * 6), (post_norm, 2 * (3 + 10 * 3)), (no_residual, 10 * 6)],
)
def test_residual_rules(rule, expected) -> None:  # type: ignore[no-untyped-def]
    result = rule(torch.tensor(3.0), lambda x: 2 * x, lambda x: 10 * x)
    assert result == expected


def test_scaled_embeddings_are_multiplied_by_the_root_of_the_width() -> None:
    plain = build(VARIANTS["tied and scaled"])
    ids = random_ids(1, 4)
    inputs_seen = []
    plain.decoder.register_forward_pre_hook(lambda module, inputs: inputs_seen.append(inputs[0]))
    plain(ids)
    torch.testing.assert_close(inputs_seen[0], plain.token_embedding(ids) * 4.0)


def test_tied_head_is_the_embedding() -> None:
    tied = build(VARIANTS["tied and scaled"])
    assert tied.head_weight is tied.token_embedding.weight
    assert not any(name.startswith("head") for name, _ in tied.named_parameters())


def test_a_fixed_bias_is_added_and_saved_but_not_trained() -> None:
    model, ids = build(VARIANTS["fixed head bias"]), random_ids(1, 4)
    before = model(ids)
    bias = torch.arange(23.0, dtype=torch.float64)
    model.load_state_dict({**model.state_dict(), "head_bias": bias})
    torch.testing.assert_close(model(ids), before + bias)
    assert "head_bias" not in dict(model.named_parameters())
    model(ids).sum().backward()
    assert model.head_bias is not None
    assert model.head_bias.grad is None


@pytest.mark.parametrize(
    ("weights", "std"),
    [
        (config.Normal(std=0.02), lambda n_in, n_out: 0.02),
        (config.He(), lambda n_in, n_out: he_std(n_in)),
        (config.Xavier(), xavier_std),
    ],
)
@pytest.mark.parametrize("outputs", ["plain", "depth_scaled", "zero"])
def test_initialisation_has_the_standard_deviation_it_claims(weights, std, outputs) -> None:  # type: ignore[no-untyped-def]
    from dataclasses import replace

    wide = replace(
        with_stack(feed_forward=config.MLP(d_ff=512, activation="relu", bias=True)),
        d_model=256,
        initialisation=config.Initialisation(weights=weights, embedding_std=0.5, outputs=outputs),
    )
    model = assemble(wide, seed=1)
    scale = {"plain": 1.0, "depth_scaled": depth_scale(2), "zero": 0.0}[outputs]
    block = model.decoder.blocks[0]
    up, down = block.feed_forward.up, block.feed_forward.down
    assert up.weight.std().item() == pytest.approx(std(256, 512), rel=0.02)
    assert down.weight.std().item() == pytest.approx(std(512, 256) * scale, rel=0.02)
    assert not up.bias.any()
    assert (block.attention_norm.gain == 1).all()
    assert model.token_embedding.weight.std().item() == pytest.approx(0.5, rel=0.03)


def test_a_users_own_module_can_be_a_part() -> None:
    from torch import nn

    from pellucid.model import Block, LanguageHead, NoPositions, Stack, Transformer

    class Average(nn.Module):
        def forward(self, x, positions, view, cache):  # type: ignore[no-untyped-def]
            return x.cumsum(1) / torch.arange(1, x.shape[1] + 1)[:, None]

    block = Block(
        attention=Average(),
        feed_forward=nn.Linear(8, 8),
        attention_norm=nn.Identity(),
        feed_forward_norm=nn.LayerNorm(8),
        residual=pre_norm,
    )
    model = Transformer(
        token_embedding=nn.Embedding(11, 8),
        decoder=Stack(blocks=[block], positions=NoPositions(), causal=True),
        context_length=5,
        head=LanguageHead(tied=False),
    )
    assert model(torch.zeros(2, 5, dtype=torch.long)).shape == (2, 5, 11)


def test_attention_under_autocast_is_near_the_wide_one_and_learns() -> None:
    model = build(VARIANTS["grouped"], double=False)
    ids = random_ids(2, 16)
    wide = model(ids)
    with torch.autocast("cpu", torch.bfloat16):
        narrow = model(ids)
        narrow.float().square().mean().backward()
    torch.testing.assert_close(narrow.float(), wide, rtol=0.1, atol=0.3)
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
