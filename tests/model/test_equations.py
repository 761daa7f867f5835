"""The modules against the equations: fused and precomputed code gives the numbers of `maths`."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn.functional import linear

from pellucid import maths
from pellucid.model import (
    ALiBi,
    BatchNorm,
    BucketedBias,
    GroupNorm,
    InstanceNorm,
    LayerNorm,
    MultiHeadAttention,
    NoPositions,
    RMSNorm,
    Rotary,
    ShawRelative,
    View,
    look,
)
from pellucid.model.attention import Heads
from pellucid.model.cache import KeysAndValues
from pellucid.model.disentangled import Disentangled
from pellucid.model.feed_forward import gelu, gelu_tanh, quick_gelu, relu, relu_squared, silu
from pellucid.model.reparametrisation import spectral_norm, weight_norm
from pellucid.model.scores import Scoring, gather
from pellucid.model.views import distances

CPU = torch.device("cpu")
TIME, D_HEAD = 7, 6
CAUSAL = look(TIME, CPU, causal=True)


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64).requires_grad_()


def same(one: torch.Tensor, other: torch.Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=0, atol=1e-11)


@pytest.mark.parametrize("cap", [None, 1.5])
@pytest.mark.parametrize("sinks", [False, True])
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_gathering_and_its_gradient_are_those_of_the_equation(
    cap: float | None, sinks: bool, kv_heads: int
) -> None:
    torch.manual_seed(0)
    q, k, v = (
        drawn(2, 4, TIME, D_HEAD),
        drawn(2, kv_heads, TIME, D_HEAD),
        drawn(2, kv_heads, TIME, 5),
    )
    sink = torch.tensor([0.3, -1.0, 2.0, 0.0], dtype=torch.float64) if sinks else None
    scale = 0.4
    mixed = gather(q, KeysAndValues(k, v), Scoring(scale, cap, sink), NoPositions(), CAUSAL)
    repeated = [part.repeat_interleave(4 // kv_heads, dim=1) for part in (k, v)]
    expected = maths.attention(
        q * (scale * math.sqrt(D_HEAD)),
        *repeated,
        mask=torch.ones(TIME, TIME, dtype=torch.bool).tril(),
        cap=cap,
        sink=sink,
    )
    same(mixed, expected)
    for gradient, expected_gradient in zip(
        torch.autograd.grad(mixed.square().sum(), (q, k, v)),
        torch.autograd.grad(expected.square().sum(), (q, k, v)),
        strict=True,
    ):
        same(gradient, expected_gradient)


@pytest.mark.parametrize("pairing", ["half_split", "interleaved"])
def test_rotary_turns_as_the_equation_does(pairing: str) -> None:
    frequencies = maths.rotary_frequencies(
        torch.arange(2, dtype=torch.float64), n_rotated=4, base=100.0
    )
    rotary = Rotary(context_length=20, frequencies=frequencies, pairing=pairing).double()
    x = drawn(2, 3, TIME, D_HEAD)
    positions = torch.arange(5, 5 + TIME, dtype=torch.float64)
    expected = maths.rotate(x, maths.angles_at(positions, frequencies), pairing=pairing)
    rotated = rotary.rotate(x, View(start=5, causal=True))
    torch.testing.assert_close(rotated, expected, rtol=0, atol=1e-6)  # its tables are float32


def test_alibi_adds_what_the_equation_says() -> None:
    key_distances = distances(3, TIME, CPU).double()
    slopes = maths.alibi_slopes(torch.arange(6, dtype=torch.float64), n_heads=6)
    q, k = drawn(1, 6, TIME, D_HEAD), drawn(1, 6, 3 + TIME, D_HEAD)
    bias = ALiBi(n_heads=6).bias(q, k, View(start=3, causal=True), 1.0)
    torch.testing.assert_close(
        bias.double(), maths.alibi_bias(slopes, key_distances), rtol=1e-6, atol=0
    )


@pytest.mark.parametrize("causal", [True, False])
def test_buckets_are_those_of_the_equation(causal: bool) -> None:
    numbers = {"n_buckets": 8, "max_distance": 12, "causal": causal}
    module = BucketedBias(context_length=40, n_heads=3, **numbers).double()
    q, k = drawn(1, 3, TIME, D_HEAD), drawn(1, 3, 20 + TIME, D_HEAD)
    bias = module.bias(q, k, View(start=20, causal=causal), 1.0)
    buckets = maths.distance_buckets(distances(20, TIME, CPU), **numbers)
    same(bias, module.table.weight[buckets].permute(2, 0, 1))


def test_shaws_vectors_belong_to_clipped_distances() -> None:
    module = ShawRelative(max_distance=2, d_head=D_HEAD, d_value=5).double()
    q = drawn(1, 2, TIME, D_HEAD)
    index = maths.clipped_distance_index(distances(0, TIME, CPU), max_distance=2)
    expected = torch.einsum("bhnd,nmd->bhnm", q, module.keys.weight[index]) * 0.3
    same(module.bias(q, q, CAUSAL, 0.3), expected)
    weights = torch.rand(1, 2, TIME, TIME, dtype=torch.float64)
    added = module.add_values(torch.zeros(1, 2, TIME, 5, dtype=torch.float64), weights, CAUSAL)
    same(added, torch.einsum("bhnm,nmd->bhnd", weights, module.values.weight[index]))


@pytest.mark.parametrize("terms", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("max_distance", [None, 9])
def test_content_meets_distance_as_the_equation_says(
    terms: tuple[bool, bool], max_distance: int | None
) -> None:
    scheme = Disentangled(
        context_length=40,
        d_model=12,
        n_buckets=8,
        max_distance=max_distance,
        content_to_position=terms[0],
        position_to_content=terms[1],
    ).double()
    nn.init.normal_(scheme.table.weight)
    layer = MultiHeadAttention(
        d_model=12, heads=Heads(4, 2, D_HEAD), qkv_bias=True, out_bias=False
    ).double()
    q, k = drawn(2, 4, TIME, D_HEAD), drawn(2, 2, 3 + TIME, D_HEAD)
    bias = scheme.in_layer(layer).bias(q, k, View(start=3, causal=True), 0.3)
    key_distances = distances(3, TIME, CPU)
    if max_distance is None:
        rows = (4 - key_distances).clamp(0, 7)
    else:
        rows = maths.log_distance_rows(key_distances, n_buckets=8, max_distance=max_distance)
    zeros = torch.zeros(8, D_HEAD, dtype=torch.float64)
    for head in range(4):
        keys = layer.position_keys(scheme.table.weight)[head // 2] if terms[0] else zeros
        queries = layer.position_queries(scheme.table.weight)[head] if terms[1] else zeros
        expected = maths.disentangled_bias(q[:, head], k[:, head // 2], queries, keys, rows)
        same(bias[:, head], expected * 0.3)


def fitted(module: nn.Module) -> nn.Module:
    """The module with gains and biases that do something."""
    module = module.double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_()
    return module


def test_norms_and_their_gradients_are_those_of_the_equations() -> None:
    torch.manual_seed(1)
    x = drawn(3, 5, 8)
    eps = 1e-3
    layer, rms = fitted(LayerNorm(8, eps=eps, bias=True)), fitted(RMSNorm(8, eps=eps))
    group, instance = fitted(GroupNorm(8, eps=eps, n_groups=2)), fitted(InstanceNorm(8, eps=eps))
    batch = fitted(BatchNorm(8, eps=eps, momentum=0.3)).train()
    pairs = [
        (layer, maths.layer_norm(x, layer.gain, layer.bias, eps=eps)),
        (rms, maths.rms_norm(x, rms.gain, eps=eps)),
        (group, maths.group_norm(x, group.gain, group.bias, n_groups=2, eps=eps)),
        (instance, maths.instance_norm(x, instance.gain, instance.bias, eps=eps)),
        (batch, maths.batch_norm(x, batch.gain, batch.bias, eps=eps)),
    ]
    weights = torch.randn(3, 5, 8, dtype=torch.float64)
    for module, expected in pairs:
        normalised = module(x)
        same(normalised, expected)
        inputs = (x, *module.parameters())
        for gradient, expected_gradient in zip(
            torch.autograd.grad((normalised * weights).sum(), inputs),
            torch.autograd.grad((expected * weights).sum(), inputs),
            strict=True,
        ):
            same(gradient, expected_gradient)


def test_running_statistics_are_those_of_the_equation() -> None:
    batch = BatchNorm(8, eps=1e-3, momentum=0.3).double().train()
    x = drawn(3, 5, 8).detach()
    mean, var = maths.batch_norm_update(
        batch.running_mean.clone(), batch.running_var.clone(), x, momentum=0.3
    )
    batch(x)
    same(batch.running_mean, mean)
    same(batch.running_var, var)
    batch.eval()
    numbers = (batch.gain, batch.bias, mean, var)
    same(batch(x), maths.batch_norm_inference(x, *numbers, eps=1e-3))


def test_reparametrised_layers_are_those_of_the_equations() -> None:
    plain = nn.Linear(6, 4).double()
    weight = plain.weight.detach().clone()
    x = drawn(3, 6)
    holder = nn.ModuleList([plain])
    weight_norm(holder)
    gain = 2 * weight.norm(dim=1)
    with torch.no_grad():
        plain.parametrizations.weight.original0.copy_(gain[:, None])
    same(plain(x), linear(x, maths.weight_norm(weight, gain), plain.bias))

    other = nn.Linear(6, 4).double()
    matrix = other.weight.detach().clone()
    spectral_norm(nn.ModuleList([other]), power_iterations=50)
    u, v = maths.power_iteration(matrix, torch.ones(4, dtype=torch.float64), steps=500)
    for _ in range(20):  # one power iteration an update
        other(x)
    torch.testing.assert_close(other.weight, maths.spectral_norm(matrix, u, v), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("module", "equation"),
    [
        (relu, maths.relu),
        (relu_squared, maths.relu_squared),
        (gelu, maths.gelu),
        (gelu_tanh, maths.gelu_tanh),
        (quick_gelu, maths.quick_gelu),
        (torch.tanh, maths.tanh),
        (silu, maths.silu),
    ],
)
def test_activations_are_those_of_the_equations(module, equation) -> None:  # type: ignore[no-untyped-def]
    x = torch.linspace(-8, 8, 101, dtype=torch.float64)
    same(module(x), equation(x))
