"""Mixtures of experts: the equation computed for every expert, the rule of the router, its loads.

Comes in: small layers and models. Goes out: that sending tokens to few experts changes no number.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from pellucid import config
from pellucid.errors import ConfigError
from pellucid.maths import (
    clamped_swiglu,
    load_balancing_loss,
    mixture_of_experts,
    router_z_loss,
    sigmoid_router,
    softmax_router,
)
from pellucid.model import ClampedGatedMLP, Experts, assemble, assemble_balancing, expert_layers
from pellucid.model.experts.routing import Groups, RouterRule
from support.models import VARIANTS, build, random_ids, with_stack

MIXTURES = {
    name: model.decoder.feed_forward
    for name, model in VARIANTS.items()
    if model.decoder is not None and isinstance(model.decoder.feed_forward, config.Experts)
}


def layer_of(kind: config.FeedForward) -> Experts:
    model = build(with_stack(feed_forward=kind))
    (layer, _) = expert_layers(model).values()
    if layer.choice_bias is not None:
        layer.choice_bias.copy_(torch.linspace(-0.1, 0.1, len(layer.choice_bias)))
    return layer


def weights_by_maths(layer: Experts, logits: Tensor) -> Tensor:
    """The weights of all experts, of a rule without groups."""
    rule = layer.rule
    if rule.scores == "softmax":
        return softmax_router(logits, n_active=rule.n_active, normalised=rule.normalised)
    bias = torch.zeros_like(logits[0]) if layer.choice_bias is None else layer.choice_bias
    weights = sigmoid_router(logits, bias, n_active=rule.n_active, scale=rule.scale)
    return weights if rule.normalised else logits.sigmoid() * (weights > 0)


@pytest.mark.parametrize("name", MIXTURES)
def test_a_layer_is_the_weighted_sum_of_all_its_experts(name: str) -> None:
    layer = layer_of(MIXTURES[name])
    x = torch.randn(3, 7, 16, dtype=torch.float64, requires_grad=True)
    weights = layer.route(x.view(-1, 16)).weights_of_all.view(3, 7, -1)
    if layer.weights_on == "input":
        outputs = torch.stack(
            [
                expert(x * w[..., None])
                for expert, w in zip(layer.experts, weights.unbind(-1), strict=True)
            ],
            -2,
        )
        expected = mixture_of_experts((weights > 0).double(), outputs)
    else:
        outputs = torch.stack([expert(x) for expert in layer.experts], -2)
        expected = mixture_of_experts(weights, outputs)
    if layer.shared is not None:
        gate = 1.0 if layer.shared_gate is None else layer.shared_gate(x).sigmoid()
        expected = expected + gate * layer.shared(x)
    torch.testing.assert_close(layer(x), expected)
    grads = [
        torch.autograd.grad(y.square().sum(), [x, *layer.parameters()])
        for y in (layer(x), expected)
    ]
    for layer_grad, sum_grad in zip(*grads, strict=True):
        torch.testing.assert_close(layer_grad, sum_grad)


@pytest.mark.parametrize("name", ["experts", "experts with weighted inputs"])
def test_a_router_weighs_as_its_equation_says(name: str) -> None:
    layer = layer_of(MIXTURES[name])
    tokens = torch.randn(11, 16, dtype=torch.float64)
    routing = layer.route(tokens)
    torch.testing.assert_close(routing.weights_of_all, weights_by_maths(layer, routing.logits))
    assert routing.is_chosen.sum(-1).eq(layer.rule.n_active).all()


def test_sigmoid_weights_are_normalised_and_scaled_without_the_bias() -> None:
    rule = RouterRule(scores="sigmoid", n_active=2, normalised=True, scale=2.5)
    logits, bias = torch.randn(9, 5).double(), torch.randn(5).double()
    expected = sigmoid_router(logits, bias, n_active=2, scale=2.5)
    torch.testing.assert_close(rule(logits, bias).weights_of_all, expected)


def test_a_token_uses_experts_of_its_best_groups_only() -> None:
    scores = torch.tensor([[0.9, 0.1, 0.6, 0.5, 0.8, 0.0]]).log()
    rule = {"scores": "softmax", "n_active": 2, "normalised": False}
    by_pair = RouterRule(**rule, groups=Groups(3, 1, "two_largest"))(scores, None)
    assert by_pair.experts.tolist() == [[2, 3]]
    by_best = RouterRule(**rule, groups=Groups(3, 2, "largest"))(scores, None)
    assert by_best.experts.tolist() == [[0, 4]]


def test_clamped_units_are_their_equation() -> None:
    layer = ClampedGatedMLP(d_model=6, d_ff=9, bias=True, limit=0.5, slope=1.702).double()
    x = torch.randn(4, 6, dtype=torch.float64) * 3
    units = clamped_swiglu(layer.gate(x), layer.up(x), limit=0.5, slope=1.702)
    torch.testing.assert_close(layer(x), layer.down(units))


def test_an_expert_without_tokens_gets_a_gradient_of_zeros() -> None:
    layer = layer_of(MIXTURES["experts"])
    with torch.no_grad():
        layer.router.weight.zero_()  # all scores equal: every token uses the same two
    layer(torch.randn(5, 16).double()).sum().backward()
    used = [bool(expert.up.weight.grad.any()) for expert in layer.experts]
    assert sorted(used) == [False, False, True, True]


def test_no_token_is_dropped_if_all_choose_the_same_expert() -> None:
    layer = layer_of(replace(MIXTURES["experts"], n_active=1))
    with torch.no_grad():
        layer.router.weight.zero_()
    x = torch.randn(64, 16).double()
    first = int(layer.route(x).experts[0, 0])
    torch.testing.assert_close(layer(x), layer.experts[first](x))


def test_losses_count_real_tokens_only() -> None:
    kind = replace(MIXTURES["experts"], router_z_loss=0.5)
    model = build(with_stack(feed_forward=kind, n_layers=1))
    (layer,) = expert_layers(model).values()
    ids, padding = random_ids(2, 6), torch.ones(2, 6, dtype=torch.bool)
    padding[1, 3:] = False
    balancing = assemble_balancing(model)
    assert balancing is not None
    with balancing.recording():
        model.states(ids, padding=padding)
        (routing, _) = layer.records[0]
        losses = balancing.take_losses(0.5)
    real = padding.flatten()
    probability, share = routing.scores[real].mean(0), routing.is_chosen[real].mean(0)
    load_loss = load_balancing_loss(probability.detach(), share)
    z_loss = router_z_loss(routing.logits[real].detach()).mean()
    assert losses is not None
    torch.testing.assert_close(losses.parts["load_loss"], 0.5 * load_loss)
    torch.testing.assert_close(losses.parts["router_z_loss"], 0.5 * z_loss)
    torch.testing.assert_close(losses.total.detach(), 0.5 * (0.01 * load_loss + 0.5 * z_loss))
    assert layer.records is None


def test_a_bias_moves_by_its_rate_against_the_load_and_stays_where_the_gate_is_closed() -> None:
    model = build(VARIANTS["grouped experts and a shared one"])
    balancing = assemble_balancing(model)
    (layer, _) = expert_layers(model).values()
    assert balancing is not None
    assert layer.choice_bias is not None
    for blocked in (1.0, 0.0):
        with balancing.recording():
            model(random_ids(4, 9))
            load = layer.records[0].routing.is_chosen.sum(0)
            balancing.take_losses(1.0)
        before = layer.choice_bias.clone()
        balancing.step(torch.tensor(blocked))
        expected = before + (1 - blocked) * 0.01 * (load.mean() - load).sign()
        torch.testing.assert_close(layer.choice_bias, expected)


def test_calls_that_do_not_learn_are_not_recorded() -> None:
    model = build(VARIANTS["experts"])
    balancing = assemble_balancing(model)
    assert balancing is not None
    with balancing.recording(), torch.no_grad():
        model(random_ids(2, 4))
        assert balancing.take_losses(1.0) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_active": 5}, "n_active must be at most n_experts, was 5 of 4"),
        ({"shared_gate": True}, "shared_gate scales the shared layer"),
        ({"groups": (3, 1, "largest")}, "n_experts must be a multiple of router.groups.n_groups"),
        ({"groups": (4, 1, "largest")}, "n_active is 2, but the 1 active groups have 1 experts"),
        ({"groups": (4, 2, "two_largest")}, 'must be "largest" if a group has one expert'),
        ({"groups": (2, 3, "largest")}, "groups.n_active must be at most n_groups, was 3 of 2"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(changes: dict[str, Any], message: str) -> None:
    def change() -> object:
        groups = changes.get("groups")
        if groups is None:
            return replace(MIXTURES["experts"], **changes)
        n_groups, n_active, score = groups
        kind = config.ExpertGroups(n_groups=n_groups, n_active=n_active, score=score)
        router = replace(MIXTURES["experts"].router, groups=kind)
        return replace(MIXTURES["experts"], router=router)

    with pytest.raises(ConfigError, match=message):
        change()


def test_a_mixture_survives_its_config() -> None:
    kind = MIXTURES["grouped experts and a shared one"]
    table = config.encode(with_stack(feed_forward=kind))
    assert config.decode(config.Transformer, table, "").decoder.feed_forward == kind


def test_routers_compute_in_float32_under_autocast() -> None:
    model = assemble(VARIANTS["experts"], seed=0)
    (layer, _) = expert_layers(model).values()
    x = torch.randn(2, 5, 16)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer.route(x.view(-1, 16)).logits.dtype == torch.float32
        assert layer(x).dtype == torch.float32
    narrow = layer.bfloat16()
    assert narrow(x.bfloat16()).dtype == torch.bfloat16
