"""The vital signs of experts: recomputed token by token from the states that a router reads."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from pellucid import config
from pellucid.model import Experts, Transformer, expert_layers
from pellucid.vitals.async_metrics import AsyncMetrics, Column
from pellucid.vitals.model_parts import study
from pellucid.vitals.readings import AGGREGATES, summarise
from pellucid.vitals.taps.experts import ExpertTaps
from support.models import VARIANTS, build, random_ids, with_stack

SOFTMAX = VARIANTS["experts"].decoder.feed_forward
SIGMOID = VARIANTS["grouped experts and a shared one"].decoder.feed_forward
DENSE = config.MLP(d_ff=8, activation="gelu", bias=False)
#: A mixture, and the depths of its layers with experts.
CASES: dict[str, tuple[config.FeedForward, int, list[int]]] = {
    "softmax": (SOFTMAX, 2, [0, 1]),
    "softmax of one expert, biases": (
        replace(SOFTMAX, n_active=1, router=replace(SOFTMAX.router, bias=True)),
        2,
        [0, 1],
    ),
    "sigmoid with a bias of the choice": (
        replace(SIGMOID, router=replace(SIGMOID.router, groups=None)),
        2,
        [0, 1],
    ),
    "dense and experts in turn": (
        config.AlternatingFeedForward(layers=(DENSE, SOFTMAX)),
        4,
        [1, 3],
    ),
    "a dense first layer, then both routers in turn": (
        config.AlternatingFeedForward(
            first=(DENSE,), layers=(SOFTMAX, replace(SIGMOID, n_active=2))
        ),
        3,
        [1, 2],
    ),
}


def built(name: str) -> Transformer:
    """The model, its routers far enough from zero that the load is uneven."""
    feed_forward, n_layers, _ = CASES[name]
    model = build(with_stack(feed_forward=feed_forward, n_layers=n_layers))
    with torch.no_grad():
        for layer in expert_layers(model).values():
            layer.router.weight.mul_(20)
            if layer.choice_bias is not None:
                layer.choice_bias.copy_(torch.linspace(-0.4, 0.4, len(layer.choice_bias)))
    return model


def measured(model: Transformer, ids: Tensor) -> dict[str, dict[str, float]]:
    metrics = AsyncMetrics()
    with torch.no_grad(), ExpertTaps(study(model)).measuring(metrics):
        model(ids)
    metrics.turn(1)
    read = metrics.read()
    return {
        column.id: dict(zip(column.places, values, strict=True))
        for column, values in (read or (0, []))[1]
    }


def states_of_routers(model: Transformer, ids: Tensor) -> dict[str, Tensor]:
    """What each router reads, (tokens, d_model)."""
    states: dict[str, Tensor] = {}
    layers = expert_layers(model)
    hooks = [
        layer.register_forward_pre_hook(
            lambda _, inputs, name=name: states.update({name: inputs[0].flatten(0, -2)})
        )
        for name, layer in layers.items()
    ]
    with torch.no_grad():
        model(ids)
    for hook in hooks:
        hook.remove()
    return states


def by_hand(layer: Experts, states: Tensor) -> dict[str, float]:
    """The four signs in plain Python, from the router's matrix alone."""
    choices: Counter[int] = Counter()
    entropies: list[float] = []
    n_experts, n_active = len(layer.experts), layer.rule.n_active
    n_groups = 1 if layer.rule.groups is None else layer.rule.groups.n_groups
    for state in states:
        logits = (layer.router.weight @ state).tolist()
        if layer.router.bias is not None:
            logits = [x + b for x, b in zip(logits, layer.router.bias.tolist(), strict=True)]
        if layer.rule.scores == "softmax":
            total = sum(math.exp(x) for x in logits)
            scores = [math.exp(x) / total for x in logits]
        else:
            scores = [1 / (1 + math.exp(-x)) for x in logits]
        added = [0.0] * n_experts if layer.choice_bias is None else layer.choice_bias.tolist()
        ranked = dict(enumerate(s + b for s, b in zip(scores, added, strict=True)))
        if layer.rule.groups is not None:
            ranked = in_best_groups(ranked, n_experts // n_groups, layer.rule.groups.n_active)
        choices.update(sorted(ranked, key=lambda i: -ranked[i])[:n_active])
        shares = [s / sum(scores) for s in scores]
        entropies.append(-sum(p * math.log(p) for p in shares))
    load = [choices[i] / choices.total() for i in range(n_experts)]
    load_entropy = -sum(p * math.log(p) for p in load if p)
    return {
        "experts.unused": load.count(0.0) / n_experts,
        "experts.evenness": (load_entropy - math.log(n_active)) / math.log(n_experts / n_active),
        "experts.load": max(load) * n_experts,
        "experts.entropy": sum(entropies) / len(entropies) / math.log(n_experts),
    }


def in_best_groups(ranked: dict[int, float], size: int, n_active: int) -> dict[int, float]:
    """The experts of the groups whose two best scores add up to the most."""
    sums = {
        start: sum(sorted((ranked[i] for i in range(start, start + size)), reverse=True)[:2])
        for start in range(0, len(ranked), size)
    }
    best = sorted(sums, key=lambda start: -sums[start])[:n_active]
    return {i: score for i, score in ranked.items() if i // size * size in best}


@pytest.mark.parametrize("name", CASES)
def test_signs_are_those_of_the_routing_by_hand(name: str) -> None:
    model, ids = built(name), random_ids(3, 16)
    found = measured(model, ids)
    layers, states = expert_layers(model), states_of_routers(model, ids)
    depths = CASES[name][2]
    assert [int(path.split(".")[2]) for path in layers] == depths
    expected = {path: by_hand(layer, states[path]) for path, layer in layers.items()}
    assert set(found) == {"experts.unused", "experts.evenness", "experts.load", "experts.entropy"}
    for sign, values in found.items():
        by_layer = {path: signs[sign] for path, signs in expected.items()}
        assert values == pytest.approx(by_layer, abs=1e-9), sign
    loads = found["experts.load"].values()
    assert min(loads) > 1.01  # uneven, so that a constant would not pass
    assert len(set(loads)) == len(layers)


@pytest.mark.parametrize(
    ("sign", "worst"),
    [
        ("experts.unused", "b"),
        ("experts.load", "b"),
        ("experts.evenness", "a"),
        ("experts.entropy", "a"),
    ],
)
def test_the_worst_layer_represents_the_model(sign: str, worst: str) -> None:
    column = Column(sign, ("a", "b", "c"))
    assert summarise(column, [0.1, 0.9, 0.4], AGGREGATES.get(sign, "max"))[1] == worst


def test_the_ends_of_the_scale_are_one_expert_for_all_and_the_same_for_each() -> None:
    feed_forward = replace(SOFTMAX, n_active=1, router=replace(SOFTMAX.router, bias=True))
    model = build(with_stack(feed_forward=feed_forward, n_layers=1))
    (layer,) = expert_layers(model).values()
    ids = random_ids(3, 16)
    with torch.no_grad():
        layer.router.weight.zero_()
        layer.router.bias.copy_(torch.tensor([0.0, 0.0, 90.0, 0.0]))
    collapsed = {sign: next(iter(values.values())) for sign, values in measured(model, ids).items()}
    assert collapsed == pytest.approx(
        {
            "experts.unused": 0.75,
            "experts.evenness": 0.0,
            "experts.load": 4.0,
            "experts.entropy": 0.0,
        },
        abs=1e-9,
    )
    with torch.no_grad():
        layer.router.bias.zero_()
    undecided = measured(model, ids)["experts.entropy"]
    assert list(undecided.values()) == pytest.approx([1.0])


def test_no_sign_is_judged_by_few_tokens_or_where_each_token_uses_all_experts() -> None:
    model = built("softmax")
    assert measured(model, random_ids(1, 15)) == {}  # 15 tokens, 2 of 4 experts: 7.5 for each
    assert measured(model, random_ids(1, 16)) != {}
    everywhere = build(with_stack(feed_forward=replace(SOFTMAX, n_active=4)))
    assert measured(everywhere, random_ids(3, 16)) == {}
